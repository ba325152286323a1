// How much room the file system of a folder has. Rejects with the system's error where it cannot be asked.
import { statfs } from 'node:fs/promises';

/** Bytes. `free`: for programs without privileges. */
type DiskSpace = { free: number; size: number };

export async function diskSpace(folder: string): Promise<DiskSpace> {
  const { bsize, bavail, blocks } = await statfs(folder);
  return { free: bavail * bsize, size: blocks * bsize };
}
