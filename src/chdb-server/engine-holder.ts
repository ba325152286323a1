// Says which living process has an engine's directory open (asked by chdb-sessions.ts for its sentence, and by
// embedded/clickhouse-process.ts before it ends a leftover engine).
// The engine writes its process id into its status file and keeps the file open. The id alone proves nothing: a copy of
// the directory names the process of the original, and in another PID namespace, or later, the id is another program's.
// Invariant: a process is named only if it has this very file open, under this very path.
// Failure: what cannot be looked at, as a process of another user, counts as none.
import { readdirSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';

/** Its process id. `enginePath`: the engine's own folder. */
export function engineHolder(enginePath: string): number | undefined {
  try {
    const status = path.join(enginePath, 'status');
    const pid = Number(/^PID: (\d+)/m.exec(readFileSync(status, 'utf8'))?.[1]);
    const open = readdirSync(`/proc/${pid}/fd`).some((fd) => leadsTo(`/proc/${pid}/fd/${fd}`, status));
    return open ? pid : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether a link of `/proc` leads to this file or folder. The path alone may be that of another container's file, and
 * the number of the file that of a hard-linked copy's.
 */
export function leadsTo(link: string, place: string): boolean {
  try {
    if (readlinkSync(link) !== realpathSync(place)) return false;
    const [there, here] = [statSync(link), statSync(place)];
    return there.ino === here.ino && there.dev === here.dev;
  } catch {
    return false;
  }
}
