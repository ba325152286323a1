// The span of one request to this service, and what policies said of its events, as OpenTelemetry has them (made where
// a head is read, ended with the answer; span-export.ts sends it). This file alone knows the names. Those of a request
// are stable (semantic conventions of HTTP); those of what policies said are the open proposal "run guardrail span and
// security finding" (semantic-conventions-genai, pull request 427), and may change.
// Invariant: nothing that users sent is in it but ids and names of policies: no payload, no part of one.
import { randomBytes } from 'node:crypto';
import type { EventType } from '../../schemas/closed-sets.ts';
import type { PolicyResult } from '../../schemas/event.ts';

type Attribute = { key: string; value: { stringValue: string } | { intValue: string } };
export type GatewaySpan = { name: string; [member: string]: unknown };
export type JudgedEvent = { id: string; type: EventType; policy_result: PolicyResult };
/** `status` 0: the client left. `code`: of the error. Times are epoch ms. */
type EndedRequest = {
  route: string;
  requestId: string;
  account: string | undefined;
  status: number;
  code: string | undefined;
  startMs: number;
  endMs: number;
};

/** A batch may have thousands of matches; a span is read by people. */
const FINDINGS_MAX = 32;
/** The bytes of the longest answer in which decisions are looked for: the loop that answers has others. */
const ANSWER_BYTES_MAX = 64 * 1024;
const SERVER_KIND = 2;
const ERROR_STATUS = 2;
type Outcome = PolicyResult['outcome'];
const TARGETS: Partial<Record<EventType, string>> = { prompt: 'llm_input', completion: 'llm_output' };
const VERDICTS: Record<Outcome, string> = { allowed: 'audit', blocked: 'deny', pending: 'escalate' };
const ACTIONS: Record<Outcome, string> = { allowed: 'allow', blocked: 'block', pending: 'escalate' };

export class GatewayTrace {
  readonly #traceId: string;
  readonly #parentId: string;
  readonly #spanId = randomBytes(8).toString('hex');
  readonly #findings: { attributes: Attribute[] }[] = [];

  /** `traceparent`: as the W3C has it; '': the caller has no trace. */
  constructor(traceparent: string) {
    this.#traceId = traceparent === '' ? randomBytes(16).toString('hex') : traceparent.slice(3, 35);
    this.#parentId = traceparent === '' ? '' : traceparent.slice(36, 52);
  }

  /** Takes the answer to a submission: an event, or the results of a batch. */
  answered(body: string | Buffer): void {
    if (body.length > ANSWER_BYTES_MAX) return;
    const answer = JSON.parse(body.toString()) as JudgedEvent | { results: (JudgedEvent | object)[] };
    for (const one of 'results' in answer ? answer.results : [answer]) if ('policy_result' in one) this.judged(one);
  }

  judged({ id, type, policy_result: { outcome, matches } }: JudgedEvent): void {
    for (const { policy_id, name, revision, type: kind, severity } of matches) {
      if (this.#findings.length === FINDINGS_MAX) return;
      const attributes = attributesOf({
        'gen_ai.security.guardrail.name': 'gatehouse',
        'gen_ai.security.target.type': TARGETS[type] ?? type,
        'gen_ai.security.target.id': id,
        'gen_ai.security.verdict.type': VERDICTS[outcome],
        'gen_ai.security.action.type': ACTIONS[outcome],
        'gen_ai.security.policy.id': policy_id,
        'gen_ai.security.policy.name': name,
        'gen_ai.security.policy.version': String(revision),
        'gen_ai.security.risk.finding': kind,
        'gatehouse.policy.severity': severity ?? undefined,
      });
      this.#findings.push({ attributes });
    }
  }

  ended({ route, requestId, account, status, code, startMs, endMs }: EndedRequest): GatewaySpan {
    const [method, path] = route.split(' ');
    const isFault = status >= 500 || status === 0;
    return {
      ...{ traceId: this.#traceId, spanId: this.#spanId, parentSpanId: this.#parentId, name: route, kind: SERVER_KIND },
      ...{ startTimeUnixNano: nanoOf(startMs), endTimeUnixNano: nanoOf(endMs) },
      attributes: attributesOf({
        'http.request.method': method,
        'http.route': path,
        'http.response.status_code': status === 0 ? undefined : status,
        'error.type': status === 0 ? 'client_left' : isFault ? (code ?? String(status)) : undefined,
        'gatehouse.error.code': code,
        'gatehouse.account.id': account,
        'gatehouse.request.id': requestId,
      }),
      events: this.#findings.map(({ attributes }) => ({
        ...{ name: 'gen_ai.security.finding', timeUnixNano: nanoOf(endMs), attributes },
      })),
      status: isFault ? { code: ERROR_STATUS } : {},
    };
  }
}

/** The body of an export, as OTLP/HTTP has it in JSON. */
export function exportText(spans: readonly GatewaySpan[], version: string): string {
  const resource = { attributes: attributesOf({ 'service.name': 'gatehouse', 'service.version': version }) };
  return JSON.stringify({
    resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'gatehouse', version }, spans }] }],
  });
}

function attributesOf(values: Record<string, string | number | undefined>): Attribute[] {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value } }];
  });
}

/** To the microsecond, which is what a double holds of it. */
function nanoOf(epochMs: number): string {
  return `${Math.round(epochMs * 1000)}000`;
}
