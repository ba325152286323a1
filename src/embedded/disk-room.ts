// Stops taking writes before the disk under the embedded Redis is full (a part of the supervisor; the fronts are
// notified over IPC). On a full disk Redis answers a last few writes from memory, and loses them if it is killed. So
// there is always room for what is under way, and for storing and merging what was accepted: free space that is kept,
// and blocks behind the end of the append-only file that no other program can take (append-only-reserve.ts).
// Invariant: a front accepts writes by default; it is notified when it is ready and at each change. Between
// two looks less is written than is reserved.
// Failure: a folder that cannot be inspected leaves the last answer standing; Redis itself refuses when it cannot
// write.

import { EXHAUSTED_BYTES } from '../chdb-server/torn-parts.ts';
import { Periodic } from '../common/async.ts';
import { diskSpace } from '../common/disk-space.ts';
import type { Room } from '../common/room.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';
import { reserveAppends } from './append-only-reserve.ts';

const LOOK_MS = 250;
/**
 * Five seconds of the fastest ingestion measured, with as much again for ClickHouse; on a small disk a twentieth of it.
 */
const RESERVE_BYTES_MAX = 1024 ** 3;
const RESERVE_SHARE = 0.05;
/**
 * Behind the end of the append-only file: twice what the fastest ingestion measured appends in LOOK_MS, and no more
 * than half of the reserve.
 */
const APPEND_BYTES_MAX = 128 * 1024 ** 2;
/** The free space above the reserve at which writes are accepted again: without it each merge would toggle it. */
const ENOUGH = 1.25;

type DiskRoomOptions = {
  folder: string;
  onChange: (room: Room) => void;
  /** Called once until there is room again. */
  onExhausted: () => void;
  log: Log;
};

export class DiskRoom implements Part {
  readonly name = 'disk room';
  readonly #options: DiskRoomOptions;
  readonly #looks = new Periodic(LOOK_MS, () => this.#look());
  #isExhausted = false;
  #room: Room = { isLow: false, freeBytes: Number.POSITIVE_INFINITY, reserveBytes: 0 };

  constructor(options: DiskRoomOptions) {
    this.#options = options;
  }

  get room(): Room {
    return this.#room;
  }

  async start(): Promise<void> {
    this.#looks.start();
    await this.#looks.run();
  }

  stop(): Promise<void> {
    return this.#looks.stop();
  }

  async #look(): Promise<void> {
    const { folder, onChange, onExhausted, log } = this.#options;
    const space = await diskSpace(folder).catch(() => undefined);
    if (space === undefined) return;
    const freeBytes = space.free;
    const reserveBytes = Math.min(RESERVE_BYTES_MAX, space.size * RESERVE_SHARE);
    const appends = await reserveAppends(folder, Math.min(APPEND_BYTES_MAX, reserveBytes / 2));
    const before = this.#room.isLow;
    const isLow = appends === 'full' || freeBytes < (before ? ENOUGH * reserveBytes : reserveBytes);
    this.#room = { isLow, freeBytes, reserveBytes };
    if (!isLow) this.#isExhausted = false;
    if (freeBytes < EXHAUSTED_BYTES && !this.#isExhausted) {
      this.#isExhausted = true;
      log.error({ freeBytes }, 'disk.exhausted');
      onExhausted();
    }
    if (isLow === before) return;
    if (isLow) log.error({ freeBytes, reserveBytes }, 'disk.nearly_full');
    else log.info({ freeBytes, reserveBytes }, 'disk.has_room_again');
    onChange(this.#room);
  }
}
