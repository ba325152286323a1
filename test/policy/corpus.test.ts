// How well each detector tells what it is for from what only looks like it, against two corpora: texts that were
// written for it (corpus/detectors.ndjson: `found` is exactly what is redacted), and every line of this repository's
// sources, lock file and pages in which the scanner sees a candidate, where nothing is to be found but our own
// examples. docs/policy-reference.md has the table (`npm run docs`); a floor is held here.
import t from 'tap';
import { measured } from './corpus/measure.ts';

/**
 * Each detector has this precision at least. One false alarm in eight: an IP address that is a version, of which
 * nothing beside it says so.
 */
const PRECISION_MIN = 0.87;
const RECALL_MIN = 0.97;

const rows = measured();

for (const { detector, precision, recall, wrong, texts, lines } of rows)
  t.test(`${detector}: ${texts} texts, ${lines} lines with a candidate`, async (t) => {
    t.ok(texts >= 10, 'there is enough to measure');
    t.ok(precision >= PRECISION_MIN, `precision ${precision.toFixed(3)}`);
    t.ok(recall >= RECALL_MIN, `recall ${recall.toFixed(3)}`);
    for (const text of wrong) t.comment(text);
  });
