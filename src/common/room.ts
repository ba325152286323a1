// Whether the disk that the embedded Redis writes to has room, as the supervisor (embedded/disk-room.ts) reports to its
// fronts.

/** `freeBytes`: null or infinite before the first poll. */
export type Room = { isLow: boolean; freeBytes: number; reserveBytes: number };

/** Part of a sentence. */
export function noRoomText({ freeBytes, reserveBytes }: Room): string {
  const mb = (bytes: number) => Math.floor(bytes / 1024 ** 2);
  return `${mb(freeBytes)} MB are free, and ${mb(reserveBytes)} are kept to finish what was accepted`;
}
