// Lays the paths that a set of rules watches out as the tree of keys that wasm/watched.ts follows (made once per set).
// wasm/watched.ts describes the layout.
import { getOrMake } from '../common/maps.ts';
import { WATCHED, WATCHED_MAX } from './wasm/layout.ts';

const HEAD_BYTES = 16;
const MEMBER_BYTES = 16;
const HASH = 0x9e3779b97f4a7c15n;
/** The module reads keys eight bytes at a time. */
const SLACK = 8;

type Node = { members: Map<string, Node>; slot: number; at: number };

/** The table's bytes, to be placed at `at`. `paths`: the keys of each; its place is the number of its record. */
export function watchedTable(paths: readonly (readonly string[])[], at: number): Buffer {
  const root: Node = { members: new Map(), slot: -1, at: 0 };
  const nodes = [root];
  for (const [slot, keys] of paths.slice(0, WATCHED_MAX).entries()) {
    let node = root;
    for (const key of keys) {
      node = getOrMake(node.members, key, () => {
        const next: Node = { members: new Map(), slot: -1, at: 0 };
        nodes.push(next);
        return next;
      });
    }
    node.slot = slot;
  }
  let end = at;
  for (const node of nodes) {
    node.at = end;
    end += HEAD_BYTES + node.members.size * MEMBER_BYTES;
  }
  const texts: Buffer[] = [];
  const table = Buffer.alloc(end - at);
  for (const node of nodes) {
    let place = node.at - at;
    table.writeUInt32LE(below(node), place);
    table.writeUInt32LE(node.slot < 0 ? 0 : WATCHED + 8 * node.slot, place + 4);
    table.writeUInt32LE(node.members.size, place + 8);
    place += HEAD_BYTES;
    for (const [key, member] of node.members) {
      const text = Buffer.from(key);
      table.writeUInt32LE(hashOf(text), place);
      table.writeUInt32LE(text.length, place + 4);
      table.writeUInt32LE(member.at, place + 8);
      table.writeUInt32LE(end, place + 12);
      place += MEMBER_BYTES;
      end += text.length;
      texts.push(text);
    }
  }
  return Buffer.concat([table, ...texts, Buffer.alloc(SLACK)]);
}

/** A bit for each path whose end lies under the node. */
function below({ members }: Node): number {
  let bits = 0;
  for (const member of members.values()) bits |= below(member) | (member.slot < 0 ? 0 : 1 << member.slot);
  return bits >>> 0;
}

/** As wasm/scan.ts has it. */
function hashOf(text: Buffer): number {
  let hash = BigInt(text.length + 1);
  let at = 0;
  for (; text.length - at > 8; at += 8) {
    hash = BigInt.asUintN(64, (hash ^ text.readBigUInt64LE(at)) * HASH);
    hash ^= hash >> 32n;
  }
  const rest = Buffer.alloc(8);
  text.copy(rest, 0, at);
  hash ^= rest.readBigUInt64LE(0);
  return Number(BigInt.asUintN(64, hash * HASH) >> 32n);
}
