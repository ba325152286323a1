// Writes the payload of an event that was made of a span (in the judging thread, before the judgement). What was sent
// as JSON text stays that text.
// Invariant: no payload is larger than `bytesMax`. What is too large is left out member by member, the largest first,
// and `left_out` says which and how large: a span that is too large keeps its tokens, its tool, its model and its
// place.
// Pure.
import type { Payload } from './events-of.ts';
import { type AttributeValue, isObject, jsonTextOf } from './span.ts';

type Bounds = {
  bytesMax: number;
  /** As which agent the span was sent, where another has it. */
  asName: string | undefined;
  /** Attributes of numbered names that a span had too many of. */
  attributesLeftOut: number;
};

/** `text`: JSON of `payload`. */
type Written = { payload: Payload; text: string };

/** `whole`: with what was left out for its size. */
export function payloadWithin(made: Payload, bounds: Bounds): Written & { whole?: Written } {
  const { bytesMax, asName, attributesLeftOut } = bounds;
  const leftOut: { [name: string]: number } = attributesLeftOut === 0 ? {} : { attributes: attributesLeftOut };
  const payload = asName === undefined ? made : { ...made, otel: { ...asObject(made['otel']), agent: asName } };
  const texts = new Map(Object.entries(payload).map(([name, value]) => [name, jsonTextOf(value)]));
  const text = written(texts);
  leaveOut(texts, leftOut, bytesMax);
  if (Object.keys(leftOut).length === 0) return { payload, text };
  const kept = Object.fromEntries(Object.entries(payload).filter(([name]) => texts.has(name)));
  const isCut = texts.size < Object.keys(payload).length;
  texts.set('left_out', JSON.stringify(leftOut));
  const left = { payload: { ...kept, left_out: leftOut }, text: written(texts) };
  return isCut ? { ...left, whole: { payload, text } } : left;
}

/** Named in `left_out`; any more are counted together. */
const LEFT_OUT_MAX = 16;
const NAME_CHARACTERS_MAX = 60;
/** For `left_out`. */
const SPARE_BYTES = 8 * 1024;

function leaveOut(texts: Map<string, string>, leftOut: { [name: string]: number }, bytesMax: number): void {
  const sizes = [...texts].map(([name, text]) => ({ name, bytes: Buffer.byteLength(text) }));
  const own = ({ name, bytes }: { name: string; bytes: number }) => Buffer.byteLength(JSON.stringify(name)) + bytes + 2;
  let left = sizes.reduce((sum, one) => sum + own(one), 0);
  if (left <= bytesMax) return;
  sizes.sort((a, b) => b.bytes - a.bytes);
  for (const [i, one] of sizes.entries()) {
    if (left <= Math.max(bytesMax - SPARE_BYTES, bytesMax / 2)) return;
    left -= own(one);
    texts.delete(one.name);
    const name = i < LEFT_OUT_MAX ? one.name.slice(0, NAME_CHARACTERS_MAX) : 'others';
    leftOut[name] = (leftOut[name] ?? 0) + one.bytes;
  }
}

function written(texts: ReadonlyMap<string, string>): string {
  return `{${[...texts].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join()}}`;
}

function asObject(value: AttributeValue | undefined): Payload {
  return isObject(value) ? value : {};
}
