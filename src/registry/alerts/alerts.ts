// Alerts as resources: who is notified of what. Whether one fires is the alert pipeline's business.
// Invariant: names are unique in the account; `agent_id` and `conditions.agent_id` always agree, and the latter wins
// where both are given; a scope names an agent that exists when it is set; a target is checked for its channel whenever
// either changes. A webhook's secret leaves in the answer that made it, with the alert or by a rotation, and in no
// other; so an alert cannot become a webhook later, when its secret could not be shown.

import type { Alert, AlertCreate, AlertCreated, AlertPatch, AlertRecord } from '../../../schemas/alert.ts';
import type { MailTransport } from '../../../schemas/closed-sets.ts';

import { isoTime } from '../../../schemas/time.ts';
import { mintId } from '../../common/ids.ts';
import { ALERTS_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import type { Keys } from '../../redis/keys.ts';
import { type Actor, keepWithin } from '../accounts/principal.ts';
import { answering, type CommandArgs, nowOf, type RegistryStore } from '../commit.ts';
import type { Created, Idempotency, Keeping } from '../idempotency.ts';
import type { Listed, NamedPage } from '../lists.ts';
import { cannotBeKept, NamedRecords, ofAgent } from '../named-records.ts';
import { targetProblem } from './alert-target.ts';
import { newSecret, rotatedSecret } from './webhook-secret.ts';

/** Mail boxes and chats are read by people: at most one message a minute unless the alert says otherwise. */
const THROTTLE_SECONDS = { webhook: 0, email: 60, chat_app: 60 } as const;

export type TargetRules = {
  /** Hosts that may be targets although they are private (allowedHostsOf). */
  allowedHosts?: ReadonlySet<string>;
  /** How mails go, which alerts by e-mail show. */
  mailTransport?: MailTransport;
};

export class Alerts {
  readonly #store: RegistryStore;
  readonly #keys: Keys;
  readonly #records: NamedRecords<AlertRecord>;
  readonly #allowedHosts: ReadonlySet<string>;
  readonly #mailTransport: MailTransport;

  constructor(store: RegistryStore & TargetRules) {
    this.#store = store;
    this.#keys = store.keys;
    this.#records = new NamedRecords(store, {
      kind: 'alert',
      hash: this.#keys.alerts,
      names: this.#keys.alertNames,
      max: ALERTS_MAX,
    });
    this.#allowedHosts = store.allowedHosts ?? new Set();
    this.#mailTransport = store.mailTransport ?? 'outbox';
  }

  /**
   * The answer of a webhook holds its secret. Throws ServiceError validation_failed, name_taken, idempotency_…,
   * unavailable.
   */
  create(account: string, body: AlertCreate, actor: Actor, idempotency?: Idempotency): Promise<Created> {
    return answering(() => {
      // Before a kept answer is given again: it may be of another key, and holds a secret.
      keepWithin(actor, scopeOf(body), { what: 'alert', path: scopePath(body) });
      return this.#records.once(account, idempotency, (keeping) => this.#create(account, body, actor, keeping));
    });
  }

  get(account: string, id: string): Promise<Alert | null> {
    return answering(async () => this.#shownIfAny(await this.#records.get(account, id)));
  }

  /** Newest first. `agent_id`: only alerts that are scoped to that agent. */
  list(account: string, asked: NamedPage): Promise<Listed<Alert>> {
    return answering(() => this.#records.list(account, asked, (record) => this.#shown(record)));
  }

  /** null: no such alert. */
  async patch(account: string, id: string, body: AlertPatch, actor: Actor): Promise<Alert | null> {
    const edited = (before: AlertRecord): AlertRecord => {
      const after = merged(before, body);
      keepWithin(actor, after.agent_id, { what: 'alert', path: scopePath(body) });
      this.#check(after, before);
      return after;
    };
    const edit = { edited, agentPath: scopePath(body) };
    return this.#shownIfAny(await this.#records.change(account, id, edit, actor));
  }

  /**
   * A new secret for a webhook; the one before signs beside it for a day. null: no such alert. Throws ServiceError
   * validation_failed for a channel that signs nothing.
   */
  async rotateSecret(account: string, id: string, actor: Actor): Promise<AlertCreated | null> {
    const at = nowOf(this.#store);
    const edited = (before: AlertRecord): AlertRecord => {
      if (before.secret === undefined)
        throw validationFailed('The secret cannot be changed.', [
          { path: '/', message: `an alert by ${before.channel} has none` },
        ]);
      return { ...before, ...rotatedSecret({ ...before, secret: before.secret }, at) };
    };
    const record = await this.#records.change(account, id, { edited }, actor);
    return record === null ? null : { ...this.#shown(record), secret: record.secret! };
  }

  /** false: no such alert. What was held back for it goes with it. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    const writes: CommandArgs[] = [
      ['hdel', this.#keys.throttles(account), id],
      ['zrem', this.#keys.throttleEnds(this.#keys.shardOf(account)), `${account}/${id}`],
    ];
    return this.#records.remove(account, id, { writes }, actor);
  }

  async #create(account: string, body: AlertCreate, actor: Actor, keeping: Keeping): Promise<string> {
    const atMs = nowOf(this.#store);
    const record = newRecord(body, atMs);
    this.#check(record, undefined);
    const { trigger, channel } = record;
    const answer = JSON.stringify(this.#withTransport(record));
    const addition = { keeping, details: { trigger, channel }, atMs, answer, agentPath: scopePath(body) };
    return this.#records.add(account, record, addition, actor);
  }

  #check(after: AlertRecord, before: AlertRecord | undefined): void {
    if (before !== undefined && before.channel === after.channel && before.target === after.target) return;
    const problem = targetProblem(after.channel, after.target, this.#allowedHosts);
    if (problem !== undefined) throw invalid('/target', problem);
    if (after.channel === 'webhook' && after.secret === undefined) {
      throw invalid('/channel', 'an alert is made a webhook at its creation, where its secret is shown');
    }
  }

  #shown({ secret: _secret, retired: _retired, ...alert }: AlertRecord): Alert {
    return this.#withTransport(alert);
  }

  #shownIfAny(record: AlertRecord | null): Alert | null {
    return record === null ? null : this.#shown(record);
  }

  #withTransport<R extends AlertRecord>(record: R): R & Pick<Alert, 'transport'> {
    return { ...record, transport: record.channel === 'email' ? this.#mailTransport : null };
  }
}

function newRecord(body: AlertCreate, nowMs: number): AlertRecord {
  const agent = scopeOf(body);
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
    ...(body.channel === 'webhook' ? { secret: newSecret() } : {}),
  };
}

/** `conditions.agent_id` wins where both are given. */
function scopeOf(body: AlertCreate): string | null {
  return body.conditions?.agent_id ?? body.agent_id ?? null;
}

function scopePath({ conditions }: AlertPatch): string {
  return conditions?.agent_id === undefined ? '/agent_id' : '/conditions/agent_id';
}

/** The scope stays unless the patch names one; `agent_id: null` takes it away, from the conditions as well. */
function merged(before: AlertRecord, body: AlertPatch): AlertRecord {
  const { agent_id: scope, conditions: given, ...rest } = body;
  const agent = given?.agent_id ?? (scope === undefined ? before.agent_id : scope);
  const { agent_id: _old, ...conditions } = given ?? before.conditions;
  return { ...before, ...rest, conditions: { ...conditions, ...ofAgent(agent) }, agent_id: agent };
}

const invalid = (path: string, message: string) => cannotBeKept('alert', path, message);
