// Reads what a client or a server of MCP sends, over whatever carries it: a message of JSON-RPC or a batch of them, as
// the text that came, with the places of what is looked at. It is the one reader: what it takes for a call is judged
// as a call, so it takes what any other reader might take for one, and refuses what readers differ on.
// Invariant: an envelope may have more or less members than the schema of a revision says; `text` is passed on as it
// is. A key that differs from one of the protocol's in its case alone is refused, since some readers take it for that.
// Failure: a Fault, with the id where one can be found, to be answered.
import {
  itemsOf,
  jsonOf,
  type Member,
  membersOf,
  scalarIn,
  stringAt,
  stringOf,
  textAt,
  withoutRepeatedKeys,
} from '../common/json-text.ts';

const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;
export const METHOD_NOT_FOUND = -32601;
export const INVALID_PARAMS = -32602;
export const INTERNAL_ERROR = -32603;

/**
 * A message has this size at most: larger than any result that a model could be shown, and a bound of what one costs.
 */
export const MESSAGE_BYTES_MAX = 32 * 1024 * 1024;
/** A batch has so many requests at most: as many as may wait. */
const BATCH_MAX = 1_000;

/** `text`: as it was written. `key`: the same for ids that are the same. */
export type Id = { text: string; key: string };
export type McpMessage = {
  kind: 'request' | 'notification' | 'answer';
  text: string;
  members: ReadonlyMap<string, Member>;
  id: Id | undefined;
  /** Empty for an answer. */
  method: string;
  /** The members of `params`, where they are an object. */
  params: ReadonlyMap<string, Member>;
};
/** `id`: its text, or `null`. */
export type Fault = { kind: 'fault'; code: number; why: string; id: string };
export type Incoming = { text: string; isBatch: boolean; items: readonly (McpMessage | Fault)[] };
export type Side = 'client' | 'server';

const ENVELOPE = ['jsonrpc', 'id', 'method', 'params', 'result', 'error'];
/** With the letters outside of ASCII that readers without regard to case take for one of these. */
const LIKE_ENVELOPE = new RegExp(`^(?:${ENVELOPE.join('|')})$`, 'iu');

/** `from` decides what a message is that has both a method and a result. */
export function readMessages(given: string, from: Side): Incoming {
  const text = given.charCodeAt(0) === 0xfeff ? given.slice(1) : given;
  let read: string;
  try {
    read = withoutRepeatedKeys(text);
  } catch (error) {
    const why = `this is no JSON: ${(error as Error).message.slice(0, 200)}`;
    // A server's other lines may look like a message.
    const isMessage = from === 'client' || text.includes('"jsonrpc"');
    return one(text, fault(PARSE_ERROR, why, isMessage ? scalarIn(text, 'id') : undefined));
  }
  const items = itemsOf(read);
  if (items === undefined) return one(read, messageOf(read.trim(), from));
  if (items.length === 0) return one(read, fault(INVALID_REQUEST, 'the batch is empty'));
  if (items.length > BATCH_MAX)
    return one(read, fault(INVALID_REQUEST, `a batch has at most ${BATCH_MAX} messages, not ${items.length}`));
  return { text: read, isBatch: true, items: items.map((item) => messageOf(textAt(read, item), from)) };
}

/** For what was too large to be kept: its beginning and its end. */
export function tooLarge(head: string, tail: string): Incoming {
  const behind = ID_AT_END.exec(tail);
  const why = `it is larger than ${MESSAGE_BYTES_MAX} bytes; what was asked for may have been done`;
  return one(head, fault(INVALID_REQUEST, why, scalarIn(head, 'id') ?? behind?.[1]));
}

const ID_AT_END =
  /,\s*"id"\s*:\s*("[^"\\\p{Cc}]{0,200}"|-?\d[\d.eE+-]{0,50})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/u;

export function idOf(text: string): Id {
  return { text, key: text.startsWith('"') ? `"${stringOf(text)}` : text };
}

/** The same for ids that some sides take for one: "1" for 1, 1 for 1.0, and what a double makes of more digits. */
export function looseKey({ text, key }: Id): string {
  return text.startsWith('"') ? key.slice(1) : String(Number(text));
}

export function failureText(id: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${jsonOf({ code, message })}}`;
}

export function resultText(id: string, result: unknown): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${jsonOf(result)}}`;
}

function one(text: string, item: McpMessage | Fault): Incoming {
  return { text, isBatch: false, items: [item] };
}

function fault(code: number, why: string, id = 'null'): Fault {
  return { kind: 'fault', code, why, id };
}

function messageOf(text: string, from: Side): McpMessage | Fault {
  const members = membersOf(text);
  if (members === undefined) return fault(INVALID_REQUEST, 'a message is an object');
  const idAt = members.get('id');
  const id = idAt === undefined ? undefined : idOf(textAt(text, idAt));
  if (id !== undefined && /^[{[]/.test(id.text)) return fault(INVALID_REQUEST, 'id must be a string or a number');
  // A server's log may be JSON.
  const isMessage = from === 'client' || members.has('jsonrpc');
  for (const key of members.keys())
    if (LIKE_ENVELOPE.test(key) && !ENVELOPE.includes(key))
      return fault(INVALID_REQUEST, `${jsonOf(key)} differs from a key of JSON-RPC in its letters alone`, id?.text);
  const has = (key: string) => members.has(key) && textAt(text, members.get(key)!) !== 'null';
  const method = stringAt(text, members.get('method'));
  const answers = has('result') || has('error');
  const params = membersOf(text, members.get('params')?.start ?? text.length) ?? new Map<string, Member>();
  if (method !== undefined && !(from === 'server' && answers))
    return { kind: id === undefined ? 'notification' : 'request', text, members, id, method, params };
  if (has('method') && method === undefined) return fault(INVALID_REQUEST, 'method must be a string', id?.text);
  if (!answers && !members.has('result') && !members.has('error'))
    return fault(INVALID_REQUEST, 'a message has a method, a result or an error', isMessage ? id?.text : undefined);
  return { kind: 'answer', text, members, id, method: '', params: new Map() };
}
