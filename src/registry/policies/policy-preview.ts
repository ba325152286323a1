// What a draft of a policy would have matched of the newest events (POST /v1/policies/preview): the draft is checked as
// a new policy is, and judged in the line of what is tried (ingest/judging-worker.ts). The handler reads the events.
// Invariant: nothing is kept and no counter moves; what creating the policy refuses is refused here in the same words,
// but for a name that is taken and for bounds on how many there may be.
// Failure: Redis away, or no room in the line, is `unavailable`.
import type { AgentRecord } from '../../../schemas/agent.ts';
import type { Policy, PolicyCreate } from '../../../schemas/policy.ts';
import type { PriceTableRecord } from '../../common/prices/price-list.ts';
import { HERE, type PolicyWork } from '../../policy/policy-work.ts';
import type { Previewed, PreviewedEvent } from '../../policy/replay/preview.ts';
import { type Actor, waitingAs } from '../accounts/principal.ts';
import { answering, type RegistryStore } from '../commit.ts';
import type { Policies } from './policies.ts';

export class PolicyPreviews {
  readonly #store: RegistryStore;
  readonly #policies: Policies;
  readonly #work: PolicyWork;

  constructor(store: RegistryStore, policies: Policies, work: PolicyWork = HERE) {
    this.#store = store;
    this.#policies = policies;
    this.#work = work;
  }

  /** Throws ServiceError validation_failed, unavailable. */
  draft(account: string, body: PolicyCreate, actor: Actor): Promise<Policy> {
    return this.#policies.draft(account, body, actor, this.#work);
  }

  /** `events`: the newest first. Throws ServiceError unavailable. */
  judge(
    account: string,
    { policy, events }: { policy: Policy; events: readonly PreviewedEvent[] },
    actor: Actor,
  ): Promise<Previewed> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      const ids = [...new Set(events.map(({ agentId }) => agentId))];
      const texts = await Promise.all(ids.map((id) => redis.get(keys.agent(account, id))));
      const agents = Object.fromEntries(
        texts.flatMap((text, i) => (text === null ? [] : [[ids[i]!, JSON.parse(text) as AgentRecord] as const])),
      );
      const priced = policy.type === 'budget' ? await redis.get(keys.prices(account)) : null;
      const prices = priced === null ? undefined : (JSON.parse(priced) as PriceTableRecord);
      return this.#work.preview(waitingAs(actor, account), { policy, agents, events, prices });
    });
  }
}
