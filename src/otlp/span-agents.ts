// Finds the agents that spans name, and registers those that are new (in the front, for the judging thread).
// Invariant: registration is by name, so a request that is sent again finds what it made. Bounded, because names may be
// made of anything: so many a request, and so many an hour of an account.
// Failure: the spans of an agent over a bound are rejected, with the reason; a Redis that is away refuses the request.
import type { Agent, AgentCreate, AgentRecord } from '../../schemas/agent.ts';
import { FRAMEWORKS } from '../../schemas/closed-sets.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import type { Agents } from '../registry/agents.ts';
import type { Actor } from '../registry/principal.ts';
import type { AgentRef } from './span-groups.ts';

const NEW_A_REQUEST_MAX = 16;
const NEW_AN_HOUR_MAX = 100;

const gcra = new Script<[taken: number, untilNextUs: number]>('gcra', readAsset('src/redis/gcra.lua'));

export class SpanAgents {
  readonly #agents: Pick<Agents, 'get' | 'byName' | 'register'>;
  readonly #redis: Commands;
  readonly #keys: Keys;

  constructor(parts: { agents: Pick<Agents, 'get' | 'byName' | 'register'>; redis: Commands; keys: Keys }) {
    this.#agents = parts.agents;
    this.#redis = parts.redis;
    this.#keys = parts.keys;
  }

  /** In the order of `refs`; text: why there is none. Throws ServiceError unavailable. */
  async resolve(account: string, actor: Actor, refs: readonly AgentRef[]): Promise<(AgentRecord | string)[]> {
    const found = await Promise.all(refs.map((ref) => this.#find(account, ref)));
    let made = 0;
    const agents: (AgentRecord | string)[] = [];
    for (const [i, ref] of refs.entries()) {
      const known = found[i]!;
      if (known !== null) agents.push(recordOf(known));
      else if ('id' in ref) agents.push('gatehouse.agent.id names no agent');
      else if (made === NEW_A_REQUEST_MAX) agents.push(`more than ${NEW_A_REQUEST_MAX} new agents in one request`);
      else if (!(await this.#mayRegister(account))) agents.push(`more than ${NEW_AN_HOUR_MAX} new agents in an hour`);
      else {
        made++;
        agents.push(recordOf((await this.#agents.register(account, creationOf(ref), actor)).agent));
      }
    }
    return agents;
  }

  #find(account: string, ref: AgentRef): Promise<Agent | null> {
    return 'id' in ref ? this.#agents.get(account, ref.id) : this.#agents.byName(account, ref.name);
  }

  async #mayRegister(account: string): Promise<boolean> {
    const [taken] = await gcra.run(
      this.#redis,
      [this.#keys.spanAgents(account)],
      [NEW_AN_HOUR_MAX / 3600, NEW_AN_HOUR_MAX, 1],
    );
    return taken === 1;
  }
}

function recordOf({ last_seen_at: _seen, ...record }: Agent): AgentRecord {
  return record;
}

type Framework = (typeof FRAMEWORKS)[number];
/** What names of instrumentations say. */
const OF_SCOPE: readonly [RegExp, Framework][] = [
  [/^(ai|gen_ai)$/, 'vercel-ai'],
  [/claude_code/, 'claude-code'],
  [/openai[-_.]agents/, 'openai-agents'],
  [/langgraph/, 'langgraph'],
  [/langchain/, 'langchain'],
  [/llama[-_]?index/, 'llamaindex'],
  [/pydantic[-_]ai/, 'pydantic-ai'],
  [/google[-_.]adk/, 'google-adk'],
  [/semantic[-_.]?kernel/, 'semantic-kernel'],
];

function creationOf({ name, framework: scope }: { name: string; framework: string }): AgentCreate {
  const lower = scope.toLowerCase();
  const known = OF_SCOPE.find(([pattern]) => pattern.test(lower))?.[1];
  const word = lower.split(/[^a-z]+/).findLast((part) => (FRAMEWORKS as readonly string[]).includes(part));
  const framework = known ?? (word as Framework | undefined) ?? 'custom';
  const metadata = { registered_by: 'otlp', ...(scope === '' ? {} : { framework: scope.slice(0, 200) }) };
  return { name, framework, metadata };
}
