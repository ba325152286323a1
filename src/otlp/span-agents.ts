// Finds the agents that spans name, and has those registered that are new (in the front, for the judging thread).
// Failure: the spans of an agent that cannot be had are rejected, with the reason; a Redis that is away refuses the
// request.
import type { Agent, AgentCreate, AgentRecord } from '../../schemas/agent.ts';
import { FRAMEWORKS } from '../../schemas/closed-sets.ts';
import { ServiceError } from '../common/errors.ts';
import type { Agents } from '../registry/agents.ts';
import type { NewAgents } from '../registry/new-agents.ts';
import type { Actor } from '../registry/principal.ts';
import type { AgentRef } from './span-groups.ts';

export class SpanAgents {
  readonly #agents: Pick<Agents, 'get' | 'byName'>;
  readonly #newAgents: Pick<NewAgents, 'ofRequest'>;

  constructor(agents: Pick<Agents, 'get' | 'byName'>, newAgents: Pick<NewAgents, 'ofRequest'>) {
    this.#agents = agents;
    this.#newAgents = newAgents;
  }

  /** In the order of `refs`; text: why there is none. Throws ServiceError unavailable. */
  async resolve(account: string, actor: Actor, refs: readonly AgentRef[]): Promise<(AgentRecord | string)[]> {
    const found = await Promise.all(refs.map((ref) => this.#find(account, ref)));
    const unknown = this.#newAgents.ofRequest(account, actor);
    const agents: (AgentRecord | string)[] = [];
    for (const [i, ref] of refs.entries()) {
      const known = found[i]!;
      if (known !== null) agents.push(recordOf(known));
      else if ('id' in ref) agents.push('gatehouse.agent.id names no agent');
      else agents.push(await unknown.register(creationOf(ref)).then(recordOf, whyNone));
    }
    return agents;
  }

  #find(account: string, ref: AgentRef): Promise<Agent | null> {
    return 'id' in ref ? this.#agents.get(account, ref.id) : this.#agents.byName(account, ref.name);
  }
}

function whyNone(error: unknown): string {
  if (error instanceof ServiceError && error.code !== 'unavailable') return error.message;
  throw error;
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
