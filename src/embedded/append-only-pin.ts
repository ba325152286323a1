// Holds on to the append-only files of a Redis that runs, as they are at one moment (for a backup).
// Redis only ever appends to a file, and a rewrite makes new ones: so an open file and its length stay what they were,
// whatever Redis writes or removes meanwhile, and they can be copied at leisure.
// Invariant: the files are those of one manifest, which was the same before and after they were opened. Called while
// Redis takes no writes, the lengths are ends of whole commands.
// Failure: a manifest that changes at every look, or cannot be read: throws. What was opened is closed then.
import { type FileHandle, open, readFile } from 'node:fs/promises';
import path from 'node:path';

/** `name`: below the server's folder. `size` in bytes. */
export type PinnedFile = { name: string; handle: FileHandle; size: number };
export type PinnedFiles = { manifest: { name: string; text: string }; files: PinnedFile[] };

const FOLDER = 'appendonlydir';
const MANIFEST = path.join(FOLDER, 'appendonly.aof.manifest');
/** A rewrite changes the manifest twice within seconds at most. */
const TRIES_MAX = 20;

/** `folder`: the server's own. The caller closes them (`closePinned`). */
export async function pinAppendOnly(folder: string): Promise<PinnedFiles> {
  for (let tries = 1; ; tries++) {
    const text = await readFile(path.join(folder, MANIFEST), 'utf8');
    const pinned = await openAll(folder, text);
    if (pinned !== undefined && (await readFile(path.join(folder, MANIFEST), 'utf8')) === text) return pinned;
    if (pinned !== undefined) await closePinned(pinned);
    if (tries === TRIES_MAX) throw new Error(`${path.join(folder, MANIFEST)} changes all the time`);
  }
}

export async function closePinned({ files }: PinnedFiles): Promise<void> {
  await Promise.all(files.map(({ handle }) => handle.close()));
}

/** undefined: one of them is gone already. */
async function openAll(folder: string, text: string): Promise<PinnedFiles | undefined> {
  // What a rewrite has replaced (type h) is only there to be removed.
  const lines = text.split('\n').filter((line) => / type [bi]$/.test(line));
  const pinned: PinnedFiles = { manifest: { name: MANIFEST, text: `${lines.join('\n')}\n` }, files: [] };
  try {
    for (const line of lines) {
      const name = path.join(FOLDER, /^file (\S+) /.exec(line)?.[1] ?? '');
      const handle = await open(path.join(folder, name));
      pinned.files.push({ name, handle, size: 0 });
    }
    for (const file of pinned.files) file.size = (await file.handle.stat()).size;
    return pinned;
  } catch (error) {
    await closePinned(pinned);
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
