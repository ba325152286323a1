// Checks as resources: services outside that policies of the type `external_check` name (schemas/external-check.ts).
// Invariant: names are unique in the account and never change; a check that a policy names is not deleted, whatever
// comes at once: the policies are read under the revision of the registry, and a policy is kept under the guard that
// its check is there (namedCheck). The secret leaves in no answer and no audit entry, and goes to no other address than
// the one that it was set with. Failure: Redis away is `unavailable`; nothing is half made.
import type { CheckCreate, CheckPatch, CheckRecord, ExternalCheck } from '../../schemas/external-check.ts';
import type { Policy } from '../../schemas/policy.ts';
import { isoTime } from '../../schemas/time.ts';
import { inSlices } from '../common/async.ts';
import { ServiceError } from '../common/errors.ts';
import { given } from '../common/given.ts';
import { mintId } from '../common/ids.ts';
import { CHECKS_MAX } from '../common/limits.ts';
import { urlProblem, withoutQuery } from '../egress/target-url.ts';
import type { Keys } from '../redis/keys.ts';
import type { Actor } from './accounts/principal.ts';
import { AGAIN, answering, commit, type Guard, inRounds, is, nowOf, present, type RegistryStore } from './commit.ts';
import type { Created, Idempotency, Keeping } from './idempotency.ts';
import type { Listed, NamedPage } from './lists.ts';
import { cannotBeKept, NamedRecords } from './named-records.ts';
import { readPolicy } from './policies/policy-record.ts';

const TIMEOUT_MS = 1_000;
const AT_ONCE = 32;
const POLICIES_SHOWN_MAX = 5;
const NO_HOSTS: ReadonlySet<string> = new Set();

/** Which of the optional fields a format has, and what they are where they are left out. */
const OWN_FIELDS = {
  gatehouse: {},
  litellm_guardrail: {},
  openai_chat: { model: undefined, prompt: undefined },
  openai_moderation: { model: 'omni-moderation-latest' },
  presidio: { language: 'en' },
} satisfies Record<ExternalCheck['speaks'], Partial<Record<'model' | 'prompt' | 'language', string | undefined>>>;

/** `allowedHosts`: names that the operator lets through (target-url.ts). */
type CheckStore = RegistryStore & { allowedHosts?: ReadonlySet<string> | undefined };

export class ExternalChecks {
  readonly #store: CheckStore;
  readonly #records: NamedRecords<CheckRecord>;

  constructor(store: CheckStore) {
    this.#store = store;
    this.#records = new NamedRecords(store, {
      kind: 'check',
      hash: store.keys.checks,
      names: store.keys.checkNames,
      max: CHECKS_MAX,
    });
  }

  /** Throws ServiceError validation_failed, name_taken, idempotency_…, unavailable. */
  create(account: string, body: CheckCreate, actor: Actor, idempotency?: Idempotency): Promise<Created> {
    return this.#records.once(account, idempotency, (keeping) => this.#create(account, body, actor, keeping));
  }

  get(account: string, id: string): Promise<ExternalCheck | null> {
    return answering(async () => shownIfAny(await this.#records.get(account, id)));
  }

  /** With its secret, to be asked. null: no such check. */
  record(account: string, id: string): Promise<CheckRecord | null> {
    return answering(() => this.#records.get(account, id));
  }

  /** Newest first. */
  list(account: string, asked: NamedPage): Promise<Listed<ExternalCheck>> {
    return answering(() => this.#records.list(account, asked, shown));
  }

  /** null: no such check. */
  async patch(account: string, id: string, body: CheckPatch, actor: Actor): Promise<ExternalCheck | null> {
    const edited = ({ prompt: promptBefore, ...before }: CheckRecord): CheckRecord => {
      const { prompt = promptBefore, ...rest } = body;
      const isMoved = body.url !== undefined && body.url !== before.url;
      if (isMoved && before.secret !== null && body.secret === undefined)
        throw invalid('/secret', 'must be said again, or null, where the address changes');
      const after = { ...before, ...rest, ...(prompt === undefined || prompt === null ? {} : { prompt }) };
      this.#keepSound(after);
      return after;
    };
    return shownIfAny(await this.#records.change(account, id, { edited }, actor));
  }

  /** false: no such check. Throws ServiceError check_in_use. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    return inRounds(async () => {
      const { redis, keys } = this.#store;
      const revisionKey = keys.revision(keys.shardOf(account));
      const revision = await redis.get(revisionKey);
      const read = await this.#records.read(account, id);
      if (read === null) return false;
      const policies = await inSlices(await redis.hvals(keys.policies(account)), readPolicy);
      const naming = policies.filter((policy) => checkOf(policy) === read.record.name);
      if (naming.length > 0) throw inUse(naming);
      const at = nowOf(this.#store);
      const step = this.#records.removal(account, read, { at }, actor);
      // Without a revision the registry is lost, which the commit says.
      const asRead: Guard[] = revision === null ? [] : [is('registry', ['get', revisionKey], revision)];
      const { refused } = await commit(this.#store, {
        ...{ account, at, ...step },
        guards: [...step.guards, ...asRead],
      });
      return refused === undefined ? true : AGAIN;
    });
  }

  async #create(account: string, body: CheckCreate, actor: Actor, keeping: Keeping): Promise<string> {
    const atMs = nowOf(this.#store);
    const record = newRecord(body, atMs);
    this.#keepSound(record);
    const { speaks, url } = record;
    const answer = JSON.stringify(shown(record));
    const addition = { keeping, details: { speaks, url: withoutQuery(url) }, atMs, answer };
    return this.#records.add(account, record, addition, actor);
  }

  /** Throws ServiceError validation_failed. */
  #keepSound(record: CheckRecord): void {
    const { speaks, url } = record;
    const problem = urlProblem(url, this.#store.allowedHosts ?? NO_HOSTS);
    if (problem !== undefined) throw invalid('/url', problem);
    for (const field of ['model', 'prompt', 'language'] as const)
      if (record[field] !== undefined && !(field in OWN_FIELDS[speaks]))
        throw invalid(`/${field}`, `has no meaning for ${speaks}`);
    if (speaks === 'openai_chat' && record.model === undefined) throw invalid('/model', 'is required for openai_chat');
  }
}

/** The name of the check that a policy asks; undefined: it asks none. */
function checkOf({ type, conditions }: Pick<Policy, 'type' | 'conditions'>): string | undefined {
  return type === 'external_check' ? (conditions['check'] as string) : undefined;
}

/** That the check which a policy names is there, in the commit that keeps the policy. `before`: as it was kept. */
export function namedCheck(keys: Keys, account: string, policy: Policy, before?: Policy): Guard[] {
  const name = checkOf(policy);
  if (name === undefined || (before !== undefined && checkOf(before) === name)) return [];
  return [present('check', ['hget', keys.checkNames(account), name])];
}

export const NO_CHECK = { path: '/conditions/check', message: 'no such check' };

/** Whether there is the check that a policy names, if it names one. */
export async function hasNamedCheck({ redis, keys }: RegistryStore, account: string, policy: Policy): Promise<boolean> {
  const name = checkOf(policy);
  return name === undefined || (await redis.hexists(keys.checkNames(account), name)) === 1;
}

function newRecord(body: CheckCreate, atMs: number): CheckRecord {
  const { name, speaks, url, secret = null, timeout_ms = TIMEOUT_MS, at_once = AT_ONCE } = body;
  const own = { ...OWN_FIELDS[speaks], ...given({ model: body.model, prompt: body.prompt, language: body.language }) };
  return {
    ...{ id: mintId('check', atMs), name, agent_id: null, speaks, url, secret, timeout_ms, at_once },
    ...given(own),
    ...{ created_at: isoTime(atMs), updated_at: isoTime(atMs) },
  };
}

function shown({ agent_id: _, secret, id, name, speaks, url, ...rest }: CheckRecord): ExternalCheck {
  return { id, name, speaks, url: withoutQuery(url), secret_set: secret !== null, ...rest };
}

function shownIfAny(record: CheckRecord | null): ExternalCheck | null {
  return record === null ? null : shown(record);
}

const invalid = (path: string, message: string) => cannotBeKept('check', path, message);

function inUse(policies: readonly Policy[]): ServiceError {
  const names = policies.slice(0, POLICIES_SHOWN_MAX).map(({ name }) => JSON.stringify(name));
  const more = policies.length > names.length ? ` and ${policies.length - names.length} more` : '';
  return new ServiceError('check_in_use', `Policies name the check: ${names.join(', ')}${more}.`, { recorded: false });
}
