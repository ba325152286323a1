// Finds the agents that spans name, and has those registered that are new (in the front, for the judging thread).
// Past the bound of new agents their spans go to the agent of their program, or to one that has all of these: a span is
// not lost because its name is new.
// Failure: the spans of an agent that cannot be had are rejected, with the reason; a Redis that is away refuses the
// request.
import type { Agent, AgentCreate, AgentRecord } from '../../schemas/agent.ts';
import { FRAMEWORKS } from '../../schemas/closed-sets.ts';
import { ServiceError } from '../common/errors.ts';
import type { Actor } from '../registry/accounts/principal.ts';
import type { Agents } from '../registry/agents.ts';
import type { NewAgents } from '../registry/new-agents.ts';
import type { AgentRef, ResolvedAgent } from './span-owners.ts';

type NamedAgent = Extract<AgentRef, { name: string }>;

export class SpanAgents {
  readonly #agents: Pick<Agents, 'get' | 'byName'>;
  readonly #newAgents: Pick<NewAgents, 'ofRequest'>;

  constructor(agents: Pick<Agents, 'get' | 'byName'>, newAgents: Pick<NewAgents, 'ofRequest'>) {
    this.#agents = agents;
    this.#newAgents = newAgents;
  }

  /** In the order of `refs`; text: why there is none. Throws ServiceError unavailable. */
  async resolve(account: string, actor: Actor, refs: readonly AgentRef[]): Promise<(ResolvedAgent | string)[]> {
    const found = await Promise.all(refs.map((ref) => this.#find(account, ref)));
    const unknown = this.#newAgents.ofRequest(account, actor);
    const standIns = new Map<string, Promise<ResolvedAgent>>();
    const agents: (ResolvedAgent | string)[] = [];
    let isFull = false;
    for (const [i, ref] of refs.entries()) {
      const known = found[i]!;
      if (known !== null) agents.push({ record: recordOf(known) });
      else if ('id' in ref) agents.push('gatehouse.agent.id names no agent');
      else {
        const made: AgentRecord | string = isFull
          ? 'full'
          : await unknown.register(creationOf(ref)).then(recordOf, whyNone);
        isFull ||= made === 'full';
        if (typeof made === 'object') agents.push({ record: made });
        else if (made !== 'full') agents.push(made);
        else agents.push({ ...(await this.#standIn(account, ref, { unknown, standIns })), asName: ref.name });
      }
    }
    return agents;
  }

  /** Null in place of an agent that is not there any more. */
  async known(account: string, ids: readonly (string | null)[]): Promise<(string | null)[]> {
    const named = [...new Set(ids)].filter((id) => id !== null);
    const agents = await Promise.all(named.map((id) => this.#agents.get(account, id)));
    const there = new Set(named.filter((_, i) => agents[i] !== null));
    return ids.map((id) => (id !== null && there.has(id) ? id : null));
  }

  #standIn(
    account: string,
    { service = '' }: NamedAgent,
    {
      unknown,
      standIns,
    }: { unknown: ReturnType<NewAgents['ofRequest']>; standIns: Map<string, Promise<ResolvedAgent>> },
  ): Promise<ResolvedAgent> {
    const known = standIns.get(service);
    if (known !== undefined) return known;
    const found = (async () => {
      const ofProgram = service === '' ? null : await this.#agents.byName(account, service);
      return { record: recordOf(ofProgram ?? (await unknown.registerOthers())) };
    })();
    standIns.set(service, found);
    return found;
  }

  #find(account: string, ref: AgentRef): Promise<Agent | null> {
    return 'id' in ref ? this.#agents.get(account, ref.id) : this.#agents.byName(account, ref.name);
  }
}

/** `full`: there are too many new ones. */
function whyNone(error: unknown): string {
  if (!(error instanceof ServiceError) || error.code === 'unavailable') throw error;
  return error.code === 'rate_limited' ? 'full' : error.message;
}

function recordOf({ last_seen_at: _seen, ...record }: Agent): AgentRecord {
  return record;
}

type Framework = (typeof FRAMEWORKS)[number];
/** The frameworks that names of instrumentations stand for. */
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

function creationOf({ name, framework: scope }: NamedAgent): AgentCreate {
  const lower = scope.toLowerCase();
  const known = OF_SCOPE.find(([pattern]) => pattern.test(lower))?.[1];
  const word = lower.split(/[^a-z]+/).findLast((part) => (FRAMEWORKS as readonly string[]).includes(part));
  const framework = known ?? (word as Framework | undefined) ?? 'custom';
  const metadata = { registered_by: 'otlp', ...(scope === '' ? {} : { framework: scope.slice(0, 200) }) };
  return { name, framework, metadata };
}
