// Agents that are registered because a call names them: at decision points and in spans (between these and agents.ts).
// A key that may only submit does this, and names may be made of anything: each new agent passes limits that are
// counted by agent and policies that are scoped to one. So there is one bound, of all such calls of an account.
// Invariant: registration is by name, so a call that is sent again finds what it made. A key that is kept to agents
// that are there, or bound to one, registers none.
// Failure: over the bound no agent is made, and the caller is answered why, or has the one for all others; a Redis that
// is away refuses the call.
import type { Agent, AgentCreate } from '../../schemas/agent.ts';
import { ServiceError } from '../common/errors.ts';
import { NEW_AGENTS_A_REQUEST_MAX, NEW_AGENTS_AN_HOUR_MAX } from '../common/limits.ts';
import { gcra } from './accounts/gcra.ts';
import type { Actor } from './accounts/principal.ts';
import { type Agents, keptToAgents } from './agents.ts';
import { answering, type RegistryStore } from './commit.ts';

export class NewAgents {
  readonly #store: Pick<RegistryStore, 'redis' | 'keys'>;
  readonly #agents: Pick<Agents, 'register'>;

  constructor(store: Pick<RegistryStore, 'redis' | 'keys'>, agents: Pick<Agents, 'register'>) {
    this.#store = store;
    this.#agents = agents;
  }

  /**
   * For those of one request that are not there. Rejects with insufficient_scope, rate_limited, unavailable.
   * `registerOthers`: the one that stands for all that are over the bound; it takes no place.
   */
  ofRequest(
    account: string,
    actor: Actor,
  ): { register(body: AgentCreate): Promise<Agent>; registerOthers(): Promise<Agent> } {
    let made = 0;
    return {
      registerOthers: async () => (await this.#agents.register(account, OTHERS, actor)).agent,
      register: async (body) => {
        if (actor.registersAgents === false) throw keptToAgents();
        if (made === NEW_AGENTS_A_REQUEST_MAX)
          throw tooMany(`more than ${NEW_AGENTS_A_REQUEST_MAX} new agents in one request`, 1);
        await this.#takePlace(account);
        made++;
        return (await this.#agents.register(account, body, actor)).agent;
      },
    };
  }

  /** Throws ServiceError rate_limited, unavailable. */
  async #takePlace(account: string): Promise<void> {
    const { redis, keys } = this.#store;
    const max = NEW_AGENTS_AN_HOUR_MAX;
    const [taken, untilNextUs] = await answering(() =>
      gcra.run(redis, [keys.newAgents(account)], [max / 3600, max, 1]),
    );
    if (taken === 0) throw tooMany(`more than ${max} new agents in an hour`, Math.ceil(untilNextUs / 1_000_000));
  }
}

/** The agent that stands for all agents whose names are over the bound. */
const OTHERS: AgentCreate = { name: 'otlp-others', framework: 'custom', metadata: { registered_by: 'otlp' } };

function tooMany(what: string, retryAfterSeconds: number): ServiceError {
  const message = `No agent is made for this name, since there are ${what}: name one that is there, or have it registered with POST /v1/agents.`;
  return new ServiceError('rate_limited', message, { retryAfterSeconds, recorded: false });
}
