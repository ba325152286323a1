// A copy has the bytes that were summed, an empty file too; and what is there already is not written over.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { checkedCopy } from '../../src/backup/checked-copy.ts';
import { folderOf } from '../support/folder.ts';

for (const text of ['', 'some bytes'])
  t.test(`of ${text.length} bytes`, async (t) => {
    const folder = folderOf(t);
    const [from, to] = [path.join(folder, 'from'), path.join(folder, 'below', 'to')];
    writeFileSync(from, `${text}and what came later`);
    const sum = createHash('sha256').update(text).digest('hex');
    t.equal(await checkedCopy(from, text.length, to), sum);
    t.equal(readFileSync(to, 'utf8'), text);
    t.equal(await checkedCopy(from, text.length), sum, 'summed alone');
    await t.rejects(checkedCopy(from, text.length, to), { code: 'EEXIST' });
  });
