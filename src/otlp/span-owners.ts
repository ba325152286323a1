// Says whose a span is, by what it, what is around it and its program say (in the judging thread, between the decoders
// and the groups). Of what is around it a request has a part alone: a child ends, and comes, before its parent. What
// earlier requests said is remembered by streams/span-notes.ts, and asked for by the span where the request ends.
// Pure.
import { createHash } from 'node:crypto';
import type { AgentRecord } from '../../schemas/agent.ts';
import { type TraceSpan, textOf } from './span.ts';

/**
 * Which agent: by its id, or by a name under which it is registered if it is new. `service`: the name of the program,
 * where no more agents may be registered.
 */
export type AgentRef = { id: string } | { name: string; framework: string; service?: string | undefined };

/** `asName`: the agent stands for one of this name, since no more are registered. */
export type ResolvedAgent = { record: AgentRecord; asName?: string };

/**
 * `named`: it is known from the request. Else `outside` is the nearest span around it that is not in the request, if
 * there is one; `inTrace` the one agent that the request names in the trace, null where it names several; `program`
 * what is left.
 */
export type Owner = {
  named?: AgentRef | undefined;
  outside?: string | undefined;
  inTrace?: AgentRef | null | undefined;
  program?: AgentRef | undefined;
};

const NAME_CHARACTERS_MAX = 200;
const HASH_CHARACTERS = 8;

export class SpanOwners {
  readonly #boundTo: string | undefined;
  readonly #spans = new Map<string, TraceSpan>();
  readonly #known = new Map<TraceSpan, Pick<Owner, 'named' | 'outside'>>();
  /** null: the request names several. */
  readonly #ofTraces = new Map<string, AgentRef | null>();

  /** `boundTo`: the key's own agent, where it is bound to one: nothing is of another. */
  constructor(spans: readonly TraceSpan[], boundTo: string | undefined) {
    this.#boundTo = boundTo;
    for (const span of spans) {
      this.#spans.set(`${span.traceId}/${idOf(span)}`, span);
      const own = ownName(span);
      if (own === undefined) continue;
      const known = this.#ofTraces.get(span.traceId);
      this.#ofTraces.set(span.traceId, known === undefined || isSame(known, own) ? own : null);
    }
  }

  of(span: TraceSpan): Owner {
    if (this.#boundTo !== undefined) return { named: { id: this.#boundTo } };
    const ofResource = textOf(span.resource, 'gatehouse.agent.id');
    const { named, outside } =
      ofResource === undefined || textOf(span.attributes, 'gatehouse.agent.id') !== undefined
        ? this.#nearest(span)
        : { named: { id: ofResource }, outside: undefined };
    if (named !== undefined) return { named };
    const inTrace = outside === undefined ? undefined : this.#ofTraces.get(span.traceId);
    return { outside, inTrace, program: ofProgram(span) };
  }

  /** By trace, the one agent that the request names in it; null: several. */
  get ofTraces(): ReadonlyMap<string, AgentRef | null> {
    return this.#ofTraces;
  }

  /** The span itself, or the nearest one in the request that names one. Each span is asked once. */
  #nearest(span: TraceSpan): Pick<Owner, 'named' | 'outside'> {
    const passed: TraceSpan[] = [];
    let found: Pick<Owner, 'named' | 'outside'> = {};
    for (let at: TraceSpan | undefined = span; at !== undefined; ) {
      const known = this.#known.get(at);
      if (known !== undefined) {
        found = known;
        break;
      }
      // A loop of parents: entered before it is asked, so that it ends.
      this.#known.set(at, {});
      passed.push(at);
      const named = ownName(at);
      if (named !== undefined) {
        found = { named };
        break;
      }
      const parent = parentIdOf(at);
      if (parent === undefined) break;
      const above: TraceSpan | undefined = this.#spans.get(`${at.traceId}/${parent}`);
      if (above === undefined) found = { outside: parent };
      at = above;
    }
    for (const one of passed) this.#known.set(one, found);
    return found;
  }
}

/** Logfire sends a span when it begins as well, as a child of itself. */
export function isPending({ attributes }: TraceSpan): boolean {
  return attributes.get('logfire.span_type') === 'pending_span';
}

function idOf(span: TraceSpan): string {
  return isPending(span) ? span.parentSpanId : span.spanId;
}

function parentIdOf(span: TraceSpan): string | undefined {
  const parent = isPending(span) ? (textOf(span.attributes, 'logfire.pending_parent_id') ?? '') : span.parentSpanId;
  return /^0*$/.test(parent) ? undefined : parent;
}

function ownName({ attributes, scope, resource }: TraceSpan): AgentRef | undefined {
  const id = textOf(attributes, 'gatehouse.agent.id');
  return id === undefined ? named(textOf(attributes, 'gen_ai.agent.name'), scope, serviceOf(resource)) : { id };
}

function ofProgram({ attributes, resource, scope }: TraceSpan): AgentRef | undefined {
  const service = serviceOf(resource);
  const name =
    textOf(resource, 'gen_ai.main_agent.name', 'gen_ai.agent.name') ??
    textOf(attributes, 'agent.name', 'ai.telemetry.functionId') ??
    service;
  return named(name, scope, service);
}

function serviceOf(resource: TraceSpan['resource']): string | undefined {
  const service = textOf(resource, 'service.name');
  return service?.startsWith('unknown_service') ? undefined : service;
}

function named(name: string | undefined, scope: string, service: string | undefined): AgentRef | undefined {
  if (name === undefined) return undefined;
  return { name: agentName(name), framework: scope, service: service === undefined ? undefined : agentName(service) };
}

/** Two long names that begin alike are two agents. */
function agentName(text: string): string {
  if (text.length <= NAME_CHARACTERS_MAX) return text;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, HASH_CHARACTERS);
  return `${text.slice(0, NAME_CHARACTERS_MAX - HASH_CHARACTERS - 1).toWellFormed()}~${hash}`;
}

function isSame(a: AgentRef | null, b: AgentRef): boolean {
  return a !== null && agentKey(a) === agentKey(b);
}

export function agentKey(agent: AgentRef): string {
  return JSON.stringify('id' in agent ? [agent.id] : ['', agent.name]);
}
