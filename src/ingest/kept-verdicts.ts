// What is kept of a request under its Idempotency-Key (ingest.ts), so that a retry is answered byte for byte: the
// caller sends the events again, so only what was decided is kept. Most events are allowed without a match, and then it
// is an id and two times.
// Invariant: `readVerdicts(keptVerdicts(v))` gives v.
import { exactTime, microsOf } from '../../schemas/time.ts';
import { ALLOWED } from '../policy/judgement.ts';
import type { Rejected } from './submission.ts';
import type { Verdict } from './submission-reply.ts';

/**
 * An id and two times (base 36; a third number is what the first has behind the millisecond, in microseconds), with
 * the text of `policy_result` where it is not the usual one and of the redacted payload where there is one; or what was
 * wrong.
 */
type VerdictRecord = string | [times: string, result: string, redacted?: string] | Rejected;

export function keptVerdicts(verdicts: readonly Verdict[]): string {
  return JSON.stringify(
    verdicts.map((verdict): VerdictRecord => {
      if ('rejected' in verdict) return verdict;
      const { id, occurredAt, receivedAt, result, redacted } = verdict;
      const micros = microsOf(occurredAt);
      const behind = micros === 0 ? '' : ` ${micros.toString(36)}`;
      const times = `${id} ${Math.floor(occurredAt).toString(36)} ${receivedAt.toString(36)}${behind}`;
      if (redacted !== undefined) return [times, result, redacted];
      return result === ALLOWED.resultJson ? times : [times, result];
    }),
  );
}

export function readVerdicts(text: string): Verdict[] {
  return (JSON.parse(text) as VerdictRecord[]).map((kept): Verdict => {
    if (typeof kept === 'object' && 'rejected' in kept) return kept;
    const [times, result, redacted] = typeof kept === 'string' ? [kept, ALLOWED.resultJson] : kept;
    const [id = '', ...numbers] = times.split(' ');
    const [ms, receivedAt, micros] = numbers.map((number) => Number.parseInt(number, 36)) as [number, number, number?];
    return {
      id,
      occurredAt: exactTime(ms, micros ?? 0),
      receivedAt,
      result,
      ...(redacted === undefined ? {} : { redacted }),
    };
  });
}
