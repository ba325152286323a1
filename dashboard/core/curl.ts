// An event as a command of a shell that sends the same again, token by token.
// Invariant: what is copied runs in bash as it is, whatever is in the payload, however long it is.
import type { WholeEvent } from './types.ts';

/** Linux takes arguments of 131,072 bytes; what is longer goes in by standard input. */
const ARGUMENT_BYTES_MAX = 100_000;

/** `url`: of the service. */
export function curlOf({ agent_id: agent, type, trace_id: trace, payload }: WholeEvent, url: string): string {
  const more = trace === undefined ? '' : `,"trace_id":${JSON.stringify(trace)}`;
  const body = `{"type":"${type}"${more},"payload":${payload.text}}`;
  const address = wordOf(`${url}/v1/agents/${agent}/events`);
  const command = `curl -X POST ${address} -H "Authorization: Bearer $GATEHOUSE_KEY" -H 'Content-Type: application/json'`;
  if (new TextEncoder().encode(body).length <= ARGUMENT_BYTES_MAX) return `${command} -d ${quoted(body)}`;
  let end = 'EOF';
  for (let n = 2; body.split('\n').includes(end); n++) end = `EOF${n}`;
  return `${command} --data-binary @- <<'${end}'\n${body}\n${end}\n`;
}

/** A value in single quotes for a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A word of a shell; most addresses need no quotes. */
export function wordOf(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : quoted(text);
}
