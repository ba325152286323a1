// What a check outside found, as one more redaction of the event (made by outside.ts, applied by redact-payload.ts).
// A check is asked about texts, and its places are in these; so each value of the payload that is such a text, within
// the fields that were asked about, has them. Names of keys were not sent, and stay.
// Fails closed: where there are no places, each text within the fields is replaced whole.
import { getOrMake } from '../../common/maps.ts';
import type { Path } from '../conditions/path.ts';
import type { Span } from '../detectors/detector-search.ts';
import { merged } from './redact-payload.ts';
import { CHECK_NAME, type NamedSpan, Redaction } from './redaction.ts';

export class OutsideRedaction extends Redaction {
  override readonly looksAtNames = true;
  /** By the text; null: each is found whole. */
  readonly #spansOf: ReadonlyMap<string, readonly NamedSpan[]> | null;

  /** `fields` null: the whole payload. `found`: in texts that were asked about; none: all of them is. */
  constructor(fields: readonly Path[] | null, found: readonly { text: string; span: Span }[]) {
    super([], { fields, trace: false });
    const spansOf = new Map<string, NamedSpan[]>();
    for (const { text, span } of found) getOrMake(spansOf, text, () => []).push(named(span));
    // A text may stand in the payload often, and have been found in as often.
    for (const spans of spansOf.values()) merged(spans);
    this.#spansOf = found.length === 0 ? null : spansOf;
  }

  override namedSpans(_name: string, value: string, spans: NamedSpan[]): void {
    const whole = value.trim() === '' ? [] : [{ start: 0, end: value.length }];
    // Texts were sent well-formed, which changes no position.
    const found = this.#spansOf === null ? whole : (this.#spansOf.get(value.toWellFormed()) ?? []);
    for (const span of found) spans.push(named(span));
  }

  override spans(): void {}
}

function named({ start, end }: Span): NamedSpan {
  return { start, end, name: CHECK_NAME };
}
