// Question: can a sender make judging dear? What does the worst text of each kind of needle cost a byte, and does it
// stay the same where the text is four times as long?
// Method: one policy of each kind, and texts of which every part almost matches; of each kind the text that costs most
// a byte at BYTES, then the same at four times as many. In process, processor time, the fastest of RUNS: reading,
// searching and judging one event, without an allowance, so nothing is cut short by what an account may take.
import { DETECTOR_NAMES } from '../schemas/closed-sets.ts';
import { judgingCost } from './policies-inside.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import type { PolicyOrder } from './workload.ts';

const BYTES = 32 * 1024;
const TIMES = 4;
const RUNS = 5;
/** Four times as long costs at most so much more a byte, against once: linear work has 1, quadratic work 4. */
const GROWTH_MAX = 1.8;

/** Repeated until the text is long enough. */
const TEXTS: Record<string, string> = {
  'one letter': 'a',
  blanks: ' ',
  words: 'ignore all previous instruction ',
  digits: '4111 1111 1111 1112 ',
  'digits in one row': '0123456789',
  groups: '078-05-112 ',
  phones: '+49 30 90 ',
  addresses: 'a.b+c@d-e.',
  'at signs': 'a@',
  numbers: '256.1.1.',
  'colons of hex': 'fe80::1:',
  accounts: 'DE89370400440532013001 ',
  'keys, one short': 'sk-abcdefghij123456789 ghp_abc AKIAIOSFODNN7 ',
  'token heads': 'eyJhbGciOiJ',
  'key heads': '-----BEGIN PRIVATE KE ',
  commands: 'rm -r x; $(',
  quotes: '\' \\" ',
  brackets: '[',
  'objects in text': '{"a":1} ',
  statements: 'SELECT 1 -- ;DELETE/**/FROM x WHERE ',
  'letters of another script': 'іgnоrе ',
  'joined by nothing': 'p\u200ba\u200bs\u200bs',
};

const filter = (conditions: PolicyOrder['conditions']): PolicyOrder => order('data_filter', conditions);
const rule = (conditions: PolicyOrder['conditions']): PolicyOrder => order('block_action', conditions);

const NEEDLES: Record<string, PolicyOrder> = {
  ...Object.fromEntries(DETECTOR_NAMES.map((name) => [`detector ${name}`, filter({ detectors: [name] })])),
  'all detectors, redacting': filter({ detectors: DETECTOR_NAMES, redact: true }),
  phrase: filter({ patterns: ['ignore all previous instructions'] }),
  'phrase in any case': filter({ patterns: ['(?i)ignore (all )?previous instructions'] }),
  'pattern with a class': filter({ patterns: ['sk-[A-Za-z0-9]{20}'] }),
  'pattern that nests repeats': filter({ patterns: ['([a-z]+)+!'] }),
  'pattern that begins anywhere': filter({ patterns: ['.*previous.*instructions!'] }),
  'pattern with bounded repeats': filter({ patterns: ['[a-z]{1,64}[ .]{1,64}[a-z]{1,64}!'] }),
  'alternatives from one state': filter({ patterns: ['(a|b)*a(a|b){12}!'] }),
  contains: rule({ prompt: { contains: 'previous instructions!' } }),
  glob: rule({ prompt: { glob: '*a*e*i*o*!' } }),
  matches: rule({ prompt: { matches: '(a+)+!' } }),
  shell: rule({ prompt: { shell: { command: 'rm', flags: ['r', 'f'] } } }),
  sql: rule({ prompt: { sql: { statement: 'drop' } } }),
  'CEL contains': rule({ expression: 'has(event.payload.prompt) && event.payload.prompt.contains("instructions!")' }),
  'CEL matches': rule({ expression: 'event.payload.prompt.matches("(a+)+!")' }),
  schema: rule({ payload_schema: { properties: { prompt: { type: 'string', pattern: '(a+)+!' } } } }),
};

/** `growth`: of the cost a byte. */
type Bomb = Row & { growth: number };
type Cost = { text: string; nsPerByte: number };

export function bombs(): boolean {
  const machine = beginLine('bombs');
  const rows = Object.entries(NEEDLES).map(([needle, policy]): Bomb => {
    const texts = Object.keys(TEXTS);
    for (const text of texts) costOf(policy, text, BYTES); // the compiler warms up
    const worst = texts
      .map((text) => costOf(policy, text, BYTES))
      .reduce((dearest, cost) => (cost.nsPerByte > dearest.nsPerByte ? cost : dearest));
    const longer = costOf(policy, worst.text, TIMES * BYTES);
    progress(`${needle}: ${worst.text}, ${worst.nsPerByte.toFixed(1)} and ${longer.nsPerByte.toFixed(1)} ns a byte`);
    const growth = longer.nsPerByte / worst.nsPerByte;
    return {
      needle,
      'dearest text': worst.text,
      'ns a byte': worst.nsPerByte,
      'four times as long': longer.nsPerByte,
      growth,
    };
  });
  const grown = rows.filter(({ growth }) => growth > GROWTH_MAX).map(({ needle }) => needle);
  const question = 'what does the worst text of each kind of needle cost a byte, and does it grow with its length?';
  hand({ line: 'bombs', question, command: 'npm run bench -- bombs', rows }, machine);
  return grown.length === 0;
}

function costOf(policy: PolicyOrder, text: string, bytes: number): Cost {
  const part = TEXTS[text]!;
  const prompt = part.repeat(Math.ceil(bytes / Buffer.byteLength(part)));
  const body = JSON.stringify({ events: [{ type: 'prompt', payload: { prompt } }] });
  return { text, nsPerByte: judgingCost({ policies: [policy], body, events: 1 }, RUNS) / Buffer.byteLength(body) };
}

function order(type: PolicyOrder['type'], conditions: PolicyOrder['conditions']): PolicyOrder {
  return { name: 'bomb', type, conditions, actions: ['block'] };
}
