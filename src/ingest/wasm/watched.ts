// Notes what stands at the paths that an account's policies speak of, while a payload is read. A table
// (../watched-table.ts) is a tree of keys; a node: u32 bits of the paths below it, u32 place of its own path's record
// (0: it is none), u32 how many members it knows, u32 unused; then for each of these u32 hash of the key, u32 its
// length, u32 position of its node, u32 position of its text. Where a path may lead to more than what stands right
// there (into lists, into text inside text, by a key that is folded to one of its keys) its bit says so, and the engine
// follows it.
import { ELSEWHERE } from './layout';

let tree: usize = 0;
/** The record of the event at hand. */
let record: usize = 0;

const SLOT: usize = 4;
const COUNT: usize = 8;
const MEMBERS: usize = 16;
const MEMBER_BYTES: usize = 16;

/** 0: nothing is watched. */
export function useWatched(at: usize): void {
  tree = at;
}

/** The node of a payload; 0: nothing is watched. */
@inline export function watchPayload(r: usize): usize {
  record = r;
  return tree;
}

/** Whatever is below a node may be elsewhere, too. */
@inline export function noteElsewhere(node: usize): void {
  store<u32>(record, load<u32>(record, ELSEWHERE) | load<u32>(node), ELSEWHERE);
}

@inline export function hasBelow(node: usize): bool {
  return node != 0 && load<u32>(node) != 0;
}

/** The node of a member with that key; 0: none. */
export function memberOf(node: usize, hash: u32, key: usize, length: usize): usize {
  if (mayBeFolded(key, length)) noteElsewhere(node); // also by the key of another path
  const end = node + MEMBERS + <usize>load<u32>(node, COUNT) * MEMBER_BYTES;
  for (let member = node + MEMBERS; member < end; member += MEMBER_BYTES) {
    if (load<u32>(member) != hash || <usize>load<u32>(member, 4) != length) continue;
    if (memory.compare(key, <usize>load<u32>(member, 12), length) == 0) return <usize>load<u32>(member, 8);
  }
  return 0;
}

/** Is anything in it beyond ASCII, or DEL? Eight bytes at a time; what is read past the end is cut off. */
function mayBeFolded(at: usize, length: usize): bool {
  let odd: u64 = 0;
  while (length > 8) {
    const eight = load<u64>(at);
    odd |= eight | (eight + 0x0101010101010101);
    at += 8;
    length -= 8;
  }
  if (length > 0) {
    const eight = load<u64>(at) & (<u64>-1 >> <u64>((8 - length) << 3));
    odd |= eight | (eight + 0x0101010101010101);
  }
  return (odd & 0x8080808080808080) != 0;
}

/** Notes the place of the value, if the node is a path's end. Positions are in the body. */
@inline export function noteValue(node: usize, from: usize, to: usize): void {
  const slot = <usize>load<u32>(node, SLOT);
  if (slot == 0) return;
  store<u32>(record + slot, <u32>from);
  store<u32>(record + slot, <u32>to, 4);
}
