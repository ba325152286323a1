// Alerts as resources (spec 2.4, 4.8-4.10, decisions 7): who is told of what. Whether one fires is the alert pipeline's business.
// Invariant: names are unique in the account; `agent_id` and `conditions.agent_id` always agree, and the latter wins where both
// are given; a scope names an agent that exists when it is set; a target is checked for its channel whenever either changes.
// A webhook's secret leaves in the answer that created the alert and in no other; so an alert cannot become a webhook later,
// when nobody would be shown its secret.
import { randomBytes } from 'node:crypto';
import type { Alert, AlertCreate, AlertPatch, AlertRecord } from '../../schemas/alert.ts';
import { isoTime } from '../../schemas/time.ts';
import { ServiceError } from '../errors.ts';
import { isId, mintId } from '../ids.ts';
import { ALERTS_MAX } from '../limits.ts';
import type { Keys } from '../redis/keys.ts';
import { validationFailed } from '../validation.ts';
import { targetProblem } from './alert-target.ts';
import { auditLog, changedFields, updateDetails } from './audit.ts';
import {
  AGAIN,
  absent,
  answering,
  below,
  commit,
  type Guard,
  inRounds,
  is,
  present,
  type RegistryStore,
  type Words,
} from './commit.ts';
import {
  answerOnce,
  type Created,
  IDEMPOTENCY_GUARD,
  type Idempotency,
  type Keeping,
  tookTooLong,
} from './idempotency.ts';
import { type Listed, type Page, pageOf } from './lists.ts';
import type { Actor } from './principal.ts';

const SECRET_BYTES = 32;
/** Mail boxes and chats are read by people: at most one message a minute unless the alert says otherwise. */
const THROTTLE_SECONDS = { webhook: 0, email: 60, chat_app: 60 } as const;

export type TargetRules = {
  /** Hosts that may be targets although they are private (allowedHostsOf). */
  allowedHosts?: ReadonlySet<string>;
  /** There is a mail server: without one an alert by e-mail would never tell anybody. */
  hasMail?: boolean;
};

export class Alerts {
  readonly #store: RegistryStore;
  readonly #keys: Keys;
  readonly #now: () => number;
  readonly #allowedHosts: ReadonlySet<string>;
  readonly #hasMail: boolean;

  constructor(store: RegistryStore & TargetRules) {
    this.#store = store;
    this.#keys = store.keys;
    this.#now = store.now ?? Date.now;
    this.#allowedHosts = store.allowedHosts ?? new Set();
    this.#hasMail = store.hasMail ?? false;
  }

  /** The answer of a webhook holds its secret. Throws ServiceError validation_failed, name_taken, idempotency_…, unavailable. */
  create(account: string, body: AlertCreate, actor: Actor, idempotency?: Idempotency): Promise<Created> {
    return answering(() =>
      answerOnce(this.#store, { account, kind: 'alert', idempotency }, (keeping) =>
        this.#create(account, body, actor, keeping),
      ),
    );
  }

  get(account: string, id: string): Promise<Alert | null> {
    return answering(async () => {
      const text = await this.#text(account, id);
      return text === null ? null : shown(JSON.parse(text) as AlertRecord);
    });
  }

  /** Newest first. */
  list(account: string, page: Page): Promise<Listed<Alert>> {
    return answering(async () => {
      const texts = await this.#store.redis.hvals(this.#keys.alerts(account));
      return pageOf(
        texts.map((text) => shown(JSON.parse(text) as AlertRecord)),
        page,
      );
    });
  }

  /** null: no such alert. */
  patch(account: string, id: string, body: AlertPatch, actor: Actor): Promise<Alert | null> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return null;
      const before = JSON.parse(text) as AlertRecord;
      const after = merged(before, body);
      if (changedFields(before, after).length === 0) return shown(before);
      this.#check(after, before);
      const at = this.#now();
      after.updated_at = isoTime(at);
      const refused = await this.#update(account, { text, before, after, at }, actor);
      if (refused === undefined) return shown(after);
      if (refused === 'record') return AGAIN;
      throw refusal(refused, body);
    });
  }

  /** false: no such alert. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return false;
      const { name, agent_id } = JSON.parse(text) as AlertRecord;
      const hash = this.#keys.alerts(account);
      const at = this.#now();
      const { refused } = await commit(this.#store, {
        account,
        at,
        guards: [is('record', ['hget', hash, id], text)],
        writes: [
          ['hdel', hash, id],
          ['hdel', this.#keys.alertNames(account), name],
          ...this.#scopeWrites('srem', account, agent_id, id),
          ['hdel', this.#keys.throttles(account), id],
          ['zrem', this.#keys.throttleEnds(this.#keys.shardOf(account)), `${account}/${id}`],
        ],
        changes: [{ kind: 'alert', id, record: null }],
        audit: [
          auditLog({ action: 'alert.deleted', type: 'alert', id, details: { name, ...ofAgent(agent_id) } }, actor, at),
        ],
      });
      return refused === undefined ? true : AGAIN;
    });
  }

  async #text(account: string, id: string): Promise<string | null> {
    return isId('alert', id) ? this.#store.redis.hget(this.#keys.alerts(account), id) : null;
  }

  async #create(account: string, body: AlertCreate, actor: Actor, keeping: Keeping): Promise<string> {
    const at = this.#now();
    const record = newRecord(body, at);
    this.#check(record, undefined);
    const { id, name, trigger, channel, agent_id } = record;
    if (agent_id !== null && !isId('agent', agent_id)) throw refusal('agent', body);
    const answer = JSON.stringify(record);
    const [hash, names] = [this.#keys.alerts(account), this.#keys.alertNames(account)];
    const details = { name, trigger, channel, ...ofAgent(agent_id) };
    const { refused } = await commit(this.#store, {
      account,
      at,
      guards: [
        ...keeping.guards,
        ...this.#agentGuards(account, agent_id),
        absent('name', ['hget', names, name]),
        below('full', ['hlen', hash], ALERTS_MAX),
      ],
      writes: [
        ['hset', hash, id, answer],
        ['hset', names, name, id],
        ...this.#scopeWrites('sadd', account, agent_id, id),
        ...keeping.writes(answer),
      ],
      changes: [{ kind: 'alert', id, record }],
      audit: [auditLog({ action: 'alert.created', type: 'alert', id, details }, actor, at)],
    });
    if (refused !== undefined) throw refusal(refused, body);
    return answer;
  }

  /** The name of the guard that did not hold. */
  async #update(
    account: string,
    change: { text: string; before: AlertRecord; after: AlertRecord; at: number },
    actor: Actor,
  ): Promise<string | undefined> {
    const { text, before, after, at } = change;
    const { id } = before;
    const hash = this.#keys.alerts(account);
    const guards: Guard[] = [is('record', ['hget', hash, id], text)];
    const writes: Words[] = [['hset', hash, id, JSON.stringify(after)]];
    if (after.name !== before.name) {
      const names = this.#keys.alertNames(account);
      guards.push(absent('name', ['hget', names, after.name]));
      writes.push(['hdel', names, before.name], ['hset', names, after.name, id]);
    }
    const activated = after.status === 'active' && before.status !== 'active';
    if (after.agent_id !== before.agent_id || activated) {
      if (after.agent_id !== null && !isId('agent', after.agent_id)) return 'agent';
      guards.push(...this.#agentGuards(account, after.agent_id));
      writes.push(...this.#scopeWrites('srem', account, before.agent_id, id));
      writes.push(...this.#scopeWrites('sadd', account, after.agent_id, id));
    }
    const details = { ...updateDetails(before, after), ...ofAgent(after.agent_id ?? before.agent_id) };
    const { refused } = await commit(this.#store, {
      account,
      at,
      guards,
      writes,
      changes: [{ kind: 'alert', id, record: after }],
      audit: [auditLog({ action: 'alert.updated', type: 'alert', id, details }, actor, at)],
    });
    return refused;
  }

  #check(after: AlertRecord, before: AlertRecord | undefined): void {
    if (before !== undefined && before.channel === after.channel && before.target === after.target) return;
    if (after.channel === 'email' && !this.#hasMail) throw invalid('/channel', 'e-mail needs GATEHOUSE_SMTP_URL');
    const problem = targetProblem(after.channel, after.target, this.#allowedHosts);
    if (problem !== undefined) throw invalid('/target', problem);
    if (after.channel === 'webhook' && after.secret === undefined) {
      throw invalid('/channel', 'an alert is made a webhook at its creation, where its secret is shown');
    }
  }

  #agentGuards(account: string, agent: string | null): Guard[] {
    return agent === null ? [] : [present('agent', ['get', this.#keys.agent(account, agent)])];
  }

  #scopeWrites(command: 'sadd' | 'srem', account: string, agent: string | null, id: string): Words[] {
    return agent === null ? [] : [[command, this.#keys.agentScope(account, agent), id]];
  }
}

function newRecord(body: AlertCreate, nowMs: number): AlertRecord {
  const agent = body.conditions?.agent_id ?? body.agent_id ?? null;
  return {
    id: mintId('alert', nowMs),
    name: body.name,
    trigger: body.trigger,
    channel: body.channel,
    target: body.target,
    conditions: { ...body.conditions, ...ofAgent(agent) },
    agent_id: agent,
    throttle_seconds: body.throttle_seconds ?? THROTTLE_SECONDS[body.channel],
    status: body.status ?? 'active',
    created_at: isoTime(nowMs),
    updated_at: isoTime(nowMs),
    ...(body.channel === 'webhook' ? { secret: `whsec_${randomBytes(SECRET_BYTES).toString('base64')}` } : {}),
  };
}

/** The scope stays unless the patch names one; `agent_id: null` takes it away, from the conditions as well. */
function merged(before: AlertRecord, body: AlertPatch): AlertRecord {
  const { agent_id: scope, conditions: given, ...rest } = body;
  const agent = given?.agent_id ?? (scope === undefined ? before.agent_id : scope);
  const { agent_id: _old, ...conditions } = given ?? before.conditions;
  return { ...before, ...rest, conditions: { ...conditions, ...ofAgent(agent) }, agent_id: agent };
}

function shown({ secret: _secret, ...alert }: AlertRecord): Alert {
  return alert;
}

function ofAgent(agent: string | null): { agent_id?: string } {
  return agent === null ? {} : { agent_id: agent };
}

function invalid(path: string, message: string): ServiceError {
  return validationFailed('The alert cannot be kept.', [{ path, message }]);
}

function refusal(guard: string, body: AlertPatch): ServiceError {
  switch (guard) {
    case 'name':
      return new ServiceError('name_taken', 'Another alert has this name.', { recorded: false });
    case 'agent':
      return invalid(body.conditions?.agent_id === undefined ? '/agent_id' : '/conditions/agent_id', 'no such agent');
    case 'full':
      return invalid('/', `an account has at most ${ALERTS_MAX} alerts`);
    case IDEMPOTENCY_GUARD:
      return tookTooLong();
    default:
      throw new Error(`unexpected guard ${guard}`);
  }
}
