// Whether a process of a test still runs. One that has ended, and whose parent has not asked how, does not.
import { readFileSync } from 'node:fs';

export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.charAt(stat.lastIndexOf(')') + 2) !== 'Z';
  } catch {
    return false;
  }
}
