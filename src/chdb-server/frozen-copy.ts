// Says what makes up a copy of a data directory whose tables were frozen (`ALTER TABLE … FREEZE WITH NAME`): parts
// from the engine's folder `shadow`, and beside them the definitions of databases and tables.
// Left out is what a start makes again or does without: logs of deduplication, mutations that had not ended, what was
// set aside, links to tables.
// Invariant: the marker of the copy names each part that has rows, so a start refuses a copy that lacks one.
// Failure: throws what the file system says, or that tables are being changed.
import { readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import path from 'node:path';
import { MARKER, readMarker } from './data-directory.ts';

/** `path`: below the directory; `from`: where it lies now. */
type CopiedFile = { path: string; from: string };
type FrozenCopy = {
  files: CopiedFile[];
  links: { path: string; target: string }[];
  /** Written last: without it no engine serves the copy. */
  marker: { path: string; text: string };
  engine: string;
  /** Parts that have rows, by `database.table`. */
  parts: Map<string, number>;
};

const ENGINE = 'engine';
const SHADOW = path.join(ENGINE, 'shadow');
/** Beside a table's parts. */
const FORMAT = 'format_version.txt';

/** `frozen`: the name that the tables were frozen under. */
export function frozenCopy(directory: string, frozen: string): FrozenCopy {
  const marker = readMarker(directory);
  if (marker === undefined || marker.changing) throw new Error('tables are being changed; try again');
  const files: CopiedFile[] = [];
  const links: FrozenCopy['links'] = [];
  const add = (from: string, to: string) => files.push({ from: path.join(directory, from), path: to });
  const definitions = path.join(ENGINE, 'metadata');
  for (const { name, isLink } of entriesOf(path.join(directory, definitions))) {
    const file = path.join(definitions, name);
    if (isLink) links.push({ path: file, target: readlinkSync(path.join(directory, file)) });
    else add(file, file);
  }
  for (const table of tableFolders(path.join(directory, ENGINE, 'store'))) {
    const folder = path.join(ENGINE, 'store', table);
    for (const { name } of entriesOf(path.join(directory, folder)))
      if (name === FORMAT || name.endsWith('.sql')) add(path.join(folder, name), path.join(folder, name));
  }
  const store = path.join(SHADOW, frozen, 'store');
  for (const file of filesBelow(path.join(directory, store)))
    add(path.join(store, file), path.join(ENGINE, 'store', file));
  const parts = partsIn(path.join(directory, store), tableNames(directory, links));
  const text = `${JSON.stringify({ ...marker, parts: parts.map(({ table, part }) => `${table}/${part}`) }, null, 1)}\n`;
  return { files, links, marker: { path: MARKER, text }, engine: marker.engine, parts: countBy(parts) };
}

/** Removes the copies that were frozen under names that begin so. */
export function removeFrozen(directory: string, begins: string): void {
  const shadow = path.join(directory, SHADOW);
  for (const { name } of entriesOf(shadow))
    if (name.startsWith(begins)) rmSync(path.join(shadow, name), { recursive: true, force: true });
}

/** Folder of a table below `store` -> `database.table`. */
function tableNames(directory: string, databases: FrozenCopy['links']): Map<string, string> {
  const names = new Map<string, string>();
  for (const { path: link } of databases) {
    for (const { name } of entriesOf(path.join(directory, link))) {
      const sql = name.endsWith('.sql') ? readFileSync(path.join(directory, link, name), 'utf8') : '';
      const [, id] = /UUID '([0-9a-f-]+)'/.exec(sql) ?? [];
      if (id !== undefined) names.set(path.join(id.slice(0, 3), id), `${path.basename(link)}.${name.slice(0, -4)}`);
    }
  }
  return names;
}

/** A part without rows is dropped by the engine whenever it likes, and is never missed. */
function partsIn(store: string, names: ReadonlyMap<string, string>): { table: string; part: string }[] {
  return tableFolders(store).flatMap((folder) =>
    entriesOf(path.join(store, folder)).flatMap(({ name: part }) => {
      const table = names.get(folder);
      if (table === undefined) throw new Error(`the table in ${folder} has no definition`);
      const isEmpty = readFileSync(path.join(store, folder, part, 'count.txt'), 'utf8').trim() === '0';
      return isEmpty ? [] : [{ table, part }];
    }),
  );
}

function countBy(parts: readonly { table: string }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { table } of parts) counts.set(table, (counts.get(table) ?? 0) + 1);
  return counts;
}

/** `abc/abcdef…` */
function tableFolders(store: string): string[] {
  return entriesOf(store).flatMap(({ name }) =>
    entriesOf(path.join(store, name)).map((entry) => path.join(name, entry.name)),
  );
}

function filesBelow(folder: string, below = ''): string[] {
  return entriesOf(path.join(folder, below)).flatMap(({ name, isFolder }) => {
    const file = path.join(below, name);
    return isFolder ? filesBelow(folder, file) : [file];
  });
}

type Entry = { name: string; isFolder: boolean; isLink: boolean };

/** In order; none where the folder is not there. */
function entriesOf(folder: string): Entry[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory(), isLink: entry.isSymbolicLink() }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
