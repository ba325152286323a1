// Lets the client of Gatehouse ask about values that are there as text: the text goes into the request as it is, and
// what a policy redacts comes back as text. The client itself writes and reads JSON as JavaScript does, which changes
// numbers.
// Invariant: a mark of this process, which nothing from outside can contain, says where a text stands.
// Failure: those of fetch.
import { randomBytes } from 'node:crypto';
import { stringEnd } from '../common/exact-json.ts';
import { jsonOf, membersOf, spliced, stringOf, textAt } from './json-text.ts';

const MARK = `${randomBytes(18).toString('base64url')}:`;

/** A value of a payload, as the text that is sent for it. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toJSON(): string {
    return MARK + this.text;
  }
}

/** The `fetch` of a Gatehouse whose payloads have values of JsonText. Members of `redacted` are texts of JSON then. */
export const exactFetch: typeof fetch = async (url, init) => {
  const body = typeof init?.body === 'string' ? { body: withTexts(init.body) } : {};
  const response = await fetch(url, { ...init, ...body });
  if (!response.ok) return response;
  return new Response(redactedAsTexts(await response.text()), { status: response.status });
};

function withTexts(body: string): string {
  const edits = [];
  for (let start = body.indexOf(`"${MARK}`); start >= 0; ) {
    const end = stringEnd(body, start) + 1;
    edits.push({ start, end, text: stringOf(body.slice(start, end)).slice(MARK.length) });
    start = body.indexOf(`"${MARK}`, end);
  }
  return spliced(body, edits);
}

function redactedAsTexts(answer: string): string {
  const at = membersOf(answer)?.get('redacted_payload');
  const members = at === undefined ? undefined : membersOf(answer, at.start);
  if (members === undefined) return answer;
  return spliced(
    answer,
    [...members.values()].map(({ start, end }) => ({ start, end, text: jsonOf(textAt(answer, { start, end })) })),
  );
}
