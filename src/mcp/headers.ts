// What is said of a message of MCP in the headers of the request that carries it: a revision of the protocol, its
// method, the name of what it is about. They are made from the message, so that no header says something else than
// what was judged. A parameter of a tool that the client sends as a header too must be among the arguments.
import type { IncomingHttpHeaders } from 'node:http';
import { scalarsOf, stringAt, textAt } from '../common/json-text.ts';
import { versionOf } from './mcp-exchange.ts';
import type { McpMessage } from './message.ts';

const PARAMETER = 'mcp-param-';
const ENCODED = /^=\?base64\?(.*)\?=$/i;
/** A value that a header can carry as it is. */
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** For a message that says its revision itself; otherwise none. */
export function headersOf(message: McpMessage): Record<string, string> {
  const version = versionOf(message);
  if (version === undefined) return {};
  const name = subjectOf(message);
  return {
    'mcp-protocol-version': version,
    'mcp-method': message.method,
    ...(name === undefined ? {} : { 'mcp-name': encoded(name) }),
  };
}

/**
 * Those of a client's `mcp-` headers that may go on with `messages`, made from them. Throws where one says what the
 * message does not.
 */
export function mcpHeaders(given: IncomingHttpHeaders, messages: readonly McpMessage[]): Record<string, string> {
  const [message] = messages;
  const headers: Record<string, string> = {};
  for (const kept of ['mcp-session-id', 'mcp-protocol-version'])
    if (given[kept] !== undefined) headers[kept] = String(given[kept]);
  if (message === undefined || messages.length > 1) return headers;
  if (given['mcp-method'] !== undefined && message.method !== '') headers['mcp-method'] = message.method;
  const name = given['mcp-name'] === undefined ? undefined : subjectOf(message);
  if (name !== undefined) headers['mcp-name'] = encoded(name);
  const args = message.params.get('arguments');
  const values = args === undefined ? new Set<string>() : scalarsOf(textAt(message.text, args));
  for (const [header, value] of Object.entries(given)) {
    if (!header.startsWith(PARAMETER)) continue;
    if (!values.has(decoded(String(value)))) throw new Error(`the header ${header} is none of the arguments`);
    headers[header] = String(value);
  }
  return { ...headers, ...headersOf(message) };
}

function subjectOf({ method, text, params }: McpMessage): string | undefined {
  const key = method === 'resources/read' ? 'uri' : method.startsWith('tasks/') ? 'taskId' : 'name';
  return stringAt(text, params.get(key));
}

function encoded(value: string): string {
  return PLAIN.test(value) && !ENCODED.test(value) ? value : `=?base64?${Buffer.from(value).toString('base64')}?=`;
}

function decoded(value: string): string {
  const [, inner] = ENCODED.exec(value) ?? [];
  return inner === undefined ? value : Buffer.from(inner, 'base64').toString();
}
