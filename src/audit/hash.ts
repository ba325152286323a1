// What the audit chain hashes (before the store's acknowledgement, and again when a chain is verified): pure, one
// definition for both sides.
//   leaf of an event     SHA-256 of its row, the very bytes of RowBinary with the columns of schemas/event-row.ts
//   leaf of another entry of the audit log    SHA-256 of 2 and its fields, each with its length in front
//   leaf of a marker     SHA-256 of 3 and what it says (`packMarker`)
//   hash n               SHA-256 of 1, hash n-1, n, leaf n, agent n, time n; hash 0 is SHA-256 of 0, the account and
//                        the chain's name
// Agent and time are covered, since by them a gap is judged: the row of an erased agent may be missing, and one that
// has expired. The first byte keeps the kinds apart: a row begins with the length of its account's id, which is none of
// these. Each entry has a hash of its own, rather than each batch: 1 us an event more, but then blocks may be cut and
// joined anywhere and a head can be checked wherever it was taken.
// An id holds 65 random bits, so the leaf of a row that is gone reveals nothing about it.
import { hash } from 'node:crypto';
import { HASH_BYTES, ID_BYTES } from '../../schemas/chain.ts';
import { ID_PREFIXES, type IdKind } from '../common/ids.ts';

export type AuditFields = {
  id: string;
  action: string;
  actor: string;
  resource_type: string;
  resource_id: string;
  /** JSON text. */
  details: string;
  createdMs: number;
};

/** An entry that is none: it says about which rows the chain says nothing. */
export type Marker = {
  /** Epoch ms at which it was made. */
  atMs: number;
  /** Rows that arrived from `fromMs` up to and not including `toMs` may be unknown to the chain. */
  fromMs: number;
  toMs: number;
};

const NO_AGENT = Buffer.alloc(ID_BYTES);
/** Stands where an entry's agent would; no id packs to it, since its time would be the year 10889. */
export const MARKER_TAG = Buffer.alloc(ID_BYTES, 0xff);

/** An id begins with its time. */
const TIME_BYTES = 6;
const PREFIX_LENGTH = 4;
const ID_LENGTH = 26;
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const VALUE_OF = new Uint8Array(128);
for (let i = 0; i < ALPHABET.length; i++) VALUE_OF[ALPHABET.charCodeAt(i)] = i;
const WELL_FORMED = /^[a-z]{3}_[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}$/;

/** By way of a string: a Buffer straight from OpenSSL has memory of its own, and costs as much as the hash. */
function putSha256(bytes: Buffer, to: Buffer, at: number): void {
  to.write(hash('sha256', bytes, 'binary'), at, HASH_BYTES, 'latin1');
}

function sha256(bytes: Buffer): Buffer {
  const digest = Buffer.allocUnsafe(HASH_BYTES);
  putSha256(bytes, digest, 0);
  return digest;
}

export function eventLeaf(row: Buffer): Buffer {
  return sha256(row);
}

/** The same, written where it belongs. */
export function putEventLeaf(row: Buffer, to: Buffer, at: number): void {
  putSha256(row, to, at);
}

export function auditLeaf(entry: AuditFields): Buffer {
  const { id, action, actor, resource_type, resource_id, details, createdMs } = entry;
  const pieces: Buffer[] = [Buffer.from([2])];
  for (const field of [id, action, actor, resource_type, resource_id, details, String(createdMs)]) {
    const text = Buffer.from(field);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(text.length);
    pieces.push(length, text);
  }
  return sha256(Buffer.concat(pieces));
}

export function genesis(account: string, chain: string): Buffer {
  return sha256(Buffer.from(`\0${account}\n${chain}`));
}

const LINK_AT = {
  previous: 1,
  n: 1 + HASH_BYTES,
  leaf: 9 + HASH_BYTES,
  agent: 9 + 2 * HASH_BYTES,
  time: 9 + 2 * HASH_BYTES + ID_BYTES,
};
const linkInput = Buffer.alloc(LINK_AT.time + TIME_BYTES, 1);

type Packed = { leaves: Buffer; agents: Buffer; ids: Buffer };

/** Hash n; `i` is the position of entry n in what is packed. `to`: where it is written, may be `previous`. */
export function link(
  previous: Buffer,
  n: number,
  packed: Packed,
  i: number,
  to = Buffer.allocUnsafe(HASH_BYTES),
): Buffer {
  const { leaves, agents, ids } = packed;
  // Byte by byte: calls that copy so little cost more than what they copy.
  for (let k = 0; k < HASH_BYTES; k++) linkInput[LINK_AT.previous + k] = previous[k]!;
  linkInput.writeUInt32BE(Math.floor(n / 2 ** 32), LINK_AT.n);
  linkInput.writeUInt32BE(n % 2 ** 32, LINK_AT.n + 4);
  for (let k = 0; k < HASH_BYTES; k++) linkInput[LINK_AT.leaf + k] = leaves[i * HASH_BYTES + k]!;
  for (let k = 0; k < ID_BYTES; k++) linkInput[LINK_AT.agent + k] = agents[i * ID_BYTES + k]!;
  for (let k = 0; k < TIME_BYTES; k++) linkInput[LINK_AT.time + k] = ids[i * ID_BYTES + k]!;
  putSha256(linkInput, to, 0);
  return to;
}

/** The 128 bits of an id. One that is not of our form becomes 128 bits of its hash: it can be found again, not read. */
export function packId(id: string): Buffer {
  const packed = Buffer.allocUnsafe(ID_BYTES);
  putId(id, packed, 0);
  return packed;
}

/** The same, written where it belongs. */
export function putId(id: string, to: Buffer, at: number): void {
  if (!WELL_FORMED.test(id)) {
    sha256(Buffer.from(id)).copy(to, at, 0, ID_BYTES);
    return;
  }
  // 10 characters are 50 bits, of which the first two are nought; then twice 8 characters, 40 bits each.
  to.writeUIntBE(numberOf(id, PREFIX_LENGTH, 10), at, 6);
  to.writeUIntBE(numberOf(id, PREFIX_LENGTH + 10, 8), at + 6, 5);
  to.writeUIntBE(numberOf(id, PREFIX_LENGTH + 18, 8), at + 11, 5);
}

export function unpackId(kind: IdKind, packed: Buffer): string {
  const text = textOf(packed.readUIntBE(0, 6), 10) + textOf(packed.readUIntBE(6, 5), 8);
  return (ID_PREFIXES[kind] + text + textOf(packed.readUIntBE(11, 5), 8)).slice(0, PREFIX_LENGTH + ID_LENGTH);
}

/** Says whether the entry's agent was erased: then its time alone is left. */
export function isBlank(packed: Buffer): boolean {
  return packed.readUIntBE(TIME_BYTES, 5) === 0 && packed.readUIntBE(TIME_BYTES + 5, 5) === 0;
}

/** Epoch ms at which a packed id was minted. */
export function timeOfPacked(packed: Buffer): number {
  return packed.readUIntBE(0, 6);
}

export function packAgent(agent: string): Buffer {
  return agent === '' ? NO_AGENT : packId(agent);
}

/** A marker is where an id would be: its time, and the times it is about. */
export function packMarker({ atMs, fromMs, toMs }: Marker): { id: Buffer; leaf: Buffer } {
  const id = Buffer.alloc(ID_BYTES);
  id.writeUIntBE(atMs, 0, 6);
  // Seconds, rounded outwards, as the room is for 5 bytes each.
  id.writeUIntBE(Math.floor(fromMs / 1000), 6, 5);
  id.writeUIntBE(Math.ceil(toMs / 1000), 11, 5);
  return { id, leaf: markerLeaf(id) };
}

export function unpackMarker(id: Buffer): Marker {
  return { atMs: id.readUIntBE(0, 6), fromMs: id.readUIntBE(6, 5) * 1000, toMs: id.readUIntBE(11, 5) * 1000 };
}

export function markerLeaf(id: Buffer): Buffer {
  return sha256(Buffer.concat([Buffer.from([3]), id]));
}

function numberOf(text: string, from: number, length: number): number {
  let value = 0;
  for (let i = from; i < from + length; i++) value = value * 32 + VALUE_OF[text.charCodeAt(i)]!;
  return value;
}

function textOf(value: number, length: number): string {
  let text = '';
  for (let rest = value, i = 0; i < length; i++) {
    text = ALPHABET[rest % 32]! + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
