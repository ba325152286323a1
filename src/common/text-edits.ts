// Replaces stretches of a text (of redacted payloads and of messages of MCP).

/** A text that is put in place of a stretch of another. */
export type TextEdit = { start: number; end: number; text: string };

/** `edits` are in order and do not overlap. */
export function applied(text: string, edits: readonly TextEdit[]): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end, text: put } of edits) {
    parts.push(text.slice(from, start), put);
    from = end;
  }
  parts.push(text.slice(from));
  return parts.join('');
}
