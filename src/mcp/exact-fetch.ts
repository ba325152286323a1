// What a policy redacts in values that the client of Gatehouse was given as text (its JsonText) comes back as text. The
// client itself reads answers as JavaScript does, which changes numbers.
// Failure: those of fetch.
import { jsonOf, membersOf, spliced, textAt } from '../common/json-text.ts';

/** The `fetch` of a Gatehouse. Members of `redacted` are texts of JSON then. */
export const exactFetch: typeof fetch = async (url, init) => {
  const response = await fetch(url, init);
  if (!response.ok) return response;
  return new Response(redactedAsTexts(await response.text()), { status: response.status });
};

function redactedAsTexts(answer: string): string {
  const at = membersOf(answer)?.get('redacted_payload');
  const members = at === undefined ? undefined : membersOf(answer, at.start);
  if (members === undefined) return answer;
  return spliced(
    answer,
    [...members.values()].map(({ start, end }) => ({ start, end, text: jsonOf(textAt(answer, { start, end })) })),
  );
}
