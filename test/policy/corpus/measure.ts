// Measures detectors against the corpora of this folder (asked by corpus.test.ts and by `npm run docs`).
// A text counts as right when exactly what it says is redacted. Of the repository's lines each counts as a text in
// which nothing is to be found.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DETECTOR_NAMES, type DetectorName } from '../../../schemas/closed-sets.ts';
import { Budget } from '../../../src/policy/budget.ts';
import { DETECTORS } from '../../../src/policy/detectors/detectors.ts';
import { RuleSet } from '../../../src/policy/engine.ts';
import { detectorNeedle, patternOf } from '../../../src/policy/text-search/scanner.ts';
import { textPatternOf } from '../../../src/policy/text-search/text-pattern.ts';
import { assetPath } from '../../../src/process/assets.ts';
import { decideOn, event, policy } from '../support.ts';

type Text = { detector: DetectorName; text: string; found: string[] };
type Measured = {
  detector: DetectorName;
  /** How much of what is found is right; how much of what is there is found. */
  precision: number;
  recall: number;
  texts: number;
  /** The lines of this repository with a candidate. */
  lines: number;
  /** The texts that were judged otherwise than they are. */
  wrong: string[];
};

export function measured(): Measured[] {
  const texts = linesOf('test/policy/corpus/detectors.ndjson').map((line) => JSON.parse(line) as Text);
  const lines = linesOfRepository();
  return DETECTOR_NAMES.map((detector) => {
    const rules = new RuleSet([policy('data_filter', { detectors: [detector], redact: true }, ['log'])]);
    const candidate = textPatternOf(patternOf(detectorNeedle(DETECTORS[detector])));
    const looked = lines.filter((line) => candidate.test(line, new Budget(Number.POSITIVE_INFINITY)));
    const own = texts.filter((text) => text.detector === detector);
    const sums = { right: 0, missed: 0, wrong: 0 };
    const wrong: string[] = [];
    for (const { text, found } of own) {
      const copy = redacted(rules, text);
      const expected = found.reduce((rest, one) => rest.replace(one, `[redacted:${detector}]`), text);
      if (copy === expected) sums.right += found.length;
      else wrong.push(`${JSON.stringify(text)} became ${JSON.stringify(copy)}`);
      if (copy !== expected) sums[found.length > 0 ? 'missed' : 'wrong']++;
    }
    for (const line of looked) {
      // Behind a mark: a line of code that begins like JSON is no text of its own, and could not be read.
      if (redacted(rules, `> ${line}`) === `> ${line}`) continue;
      sums.wrong++;
      wrong.push(`found in this repository: ${line.trim()}`);
    }
    return {
      detector,
      precision: sums.right / (sums.right + sums.wrong),
      recall: sums.right / (sums.right + sums.missed),
      texts: own.length,
      lines: looked.length,
      wrong,
    };
  });
}

function redacted(rules: RuleSet, text: string): string {
  const copy = decideOn(rules, event('custom', { text })).redacted;
  return copy === null ? text : (JSON.parse(copy.payloadText) as { text: string }).text;
}

/** Folders and files whose lines are taken, but for those that hold an example of what is found. */
const FOLDERS = ['src', 'schemas', 'pipelines', 'clickhouse', 'bench', 'scripts', 'dashboard', 'docs'];
const FILES = ['package-lock.json', 'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'];

const EXAMPLES = [
  ...['oncall@example.com', 'user@example.com', 'gatehouse@example.com', 'jay@google.com'],
  ...['::ffff:127', "'10.0.0.0'", "'192.0.0.0'", "'198.51.100.0'", '1.2.3.4:80', '10.0.0.0/8', '192.0.2.7', '10.0.0.5'],
  ...['gth_6sGm8oY3kQzT1vBnX4hRdC7wLpF2jEaU9tKiN5yM', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
];

function linesOfRepository(): string[] {
  const files = [
    ...FILES,
    ...FOLDERS.flatMap((folder) =>
      (readdirSync(assetPath(folder), { recursive: true }) as string[])
        .filter((name) => /\.(?:ts|tsx|mjs|md|sql|lua|css|html|yaml)$/.test(name))
        .map((name) => path.join(folder, name)),
    ),
  ];
  return files.flatMap(linesOf).filter((line) => !EXAMPLES.some((example) => line.includes(example)));
}

function linesOf(file: string): string[] {
  return readFileSync(assetPath(file), 'utf8')
    .split('\n')
    .filter((line) => line !== '');
}
