// Says whether a span is the call that was asked about before (in the judging thread; joining.md, "Judged before"). A
// mark on a span is the word of the one who is observed: it is taken where tool and arguments are the decision's.
// Pure. Invariant: JSON values are compared, not their texts: neither the order of keys nor how a number is written
// counts. A record that was redacted is compared with the redacted copy of the span: nothing else fits a mark of it.
import type { Json, JsonObject } from '../../schemas/common.ts';
import { parseExact } from '../common/exact-json.ts';
import { compareNumbers, isNumber, isObject } from '../common/exact-number.ts';
import { exactValue } from '../common/inner-json.ts';

/** Both are payloads of a tool's call. `decided`: as it is stored. */
export function isSameCall(decided: JsonObject, sent: JsonObject): boolean {
  if (typeof decided['tool'] !== 'string' || decided['tool'] !== sent['tool']) return false;
  // What else it says was not asked about.
  if (!Object.keys(sent).every((name) => ABOUT_CALLS.has(name))) return false;
  // Where the sender does not capture content, nothing is said of the arguments.
  if (sent['content_captured'] === false && sent['arguments'] === undefined && sent['result'] === undefined)
    return true;
  return fits(opened(decided['arguments']), opened(sent['arguments']));
}

/** The members that the intake makes of a span of a tool: any other was not asked about. */
const ABOUT_CALLS: ReadonlySet<string> = new Set([
  ...['tool', 'arguments', 'result', 'call_id', 'content_captured', 'duration_ms', 'otel', 'left_out', 'error'],
]);

/** undefined: no object. */
export function readPayload(text: string): JsonObject | undefined {
  const value = parseExact(text);
  return isObject(value) ? value : undefined;
}

/** Arguments as text are what the text holds, on either side. */
function opened(value: Json | undefined): Json | undefined {
  return typeof value === 'string' ? (exactValue(value) ?? value) : value;
}

function fits(decided: Json | undefined, sent: Json | undefined): boolean {
  if (isNumber(decided)) return isNumber(sent) && compareNumbers(decided, sent) === 0;
  if (Array.isArray(decided))
    return Array.isArray(sent) && sent.length === decided.length && decided.every((one, i) => fits(one, sent[i]));
  if (!isObject(decided)) return decided === sent;
  if (!isObject(sent)) return false;
  const names = Object.keys(decided);
  return (
    names.length === Object.keys(sent).length &&
    names.every((name) => Object.hasOwn(sent, name) && fits(decided[name], sent[name]))
  );
}
