// A submission as policies see it (between reading and judgement). What few rules ask for is made when asked for.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { JsonObject } from '../../schemas/common.ts';
import { exactIsoTime } from '../../schemas/time.ts';
import { mayHoldLongNumber, parseExact } from '../common/exact-json.ts';
import type { EventView } from '../policy/judgement.ts';
import type { ParsedSubmission } from './submission.ts';

export class View implements EventView {
  readonly type: EventView['type'];
  readonly trace_id: string | undefined;
  readonly agent_id: string;
  readonly payload: EventView['payload'];
  readonly payloadText: string;
  readonly agent: AgentRecord;
  readonly #occurredAt: number;

  constructor(submission: ParsedSubmission, agent: AgentRecord) {
    this.type = submission.type;
    this.trace_id = submission.traceId;
    this.agent_id = agent.id;
    // What is kept of an event is drawn from the submission's own payload; only policies distinguish such numbers.
    this.payload = mayHoldLongNumber(submission.payloadText)
      ? (parseExact(submission.payloadText) as JsonObject)
      : submission.payload;
    this.payloadText = submission.payloadText;
    this.agent = agent;
    this.#occurredAt = submission.occurredAt;
  }

  get timestamp(): string {
    return exactIsoTime(this.#occurredAt);
  }
}
