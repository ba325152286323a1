// Writes what the ready policies name in a thousand ways: command lines that a shell runs as the same, and statements
// that a database does. None may pass (targets.ts). Pure, and the same for the same random numbers.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: texts of a shell
type Random = () => number;

const below = (random: Random, n: number) => Math.floor(random() * n);
const one = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!;

/** `isSimple`: one command, which may stand behind `sudo`. */
type Line = { text: string; isSimple: boolean };

/** A command, as words; options may stand anywhere after the head. */
type Meaning = { head: string[]; options: string[][]; operands: string[] };
const MEANINGS: readonly Meaning[] = [
  ...[
    ['-rf'],
    ['-fr'],
    ['-r', '-f'],
    ['-R', '-f'],
    ['-Rf'],
    ['--recursive', '--force'],
    ['-r', '--force'],
    ['-vrf'],
    ['--recurs', '-f'],
  ].map((flags): Meaning => ({ head: ['rm'], options: [flags], operands: ['/'] })),
  { head: ['rm'], options: [['-rf']], operands: ['~', '/etc', './x'] },
  { head: ['mkfs.ext4'], options: [[]], operands: ['/dev/sda1'] },
  { head: ['dd'], options: [[]], operands: ['if=/dev/zero', 'of=/dev/sda'] },
  { head: ['shred'], options: [['-u']], operands: ['file'] },
  { head: ['wipefs'], options: [['-a']], operands: ['/dev/sdb'] },
  { head: ['chmod'], options: [['-R'], ['--recursive'], ['-Rv']], operands: ['777', '/'] },
  { head: ['find', '/'], options: [['-delete'], ['-type', 'f', '-delete']], operands: [] },
  {
    head: ['git', 'push'],
    options: [['--force'], ['-f'], ['-uf'], ['--force-with-lease']],
    operands: ['origin', 'main'],
  },
  { head: ['git', '-C', '.', 'push'], options: [['--force'], ['-f']], operands: ['origin', 'main'] },
  { head: ['git', '-c', 'a.b=c', 'push'], options: [['-q']], operands: ['origin', '+main'] },
  { head: ['git', 'reset'], options: [['--hard'], ['-q', '--hard']], operands: ['HEAD~3'] },
];

function shuffled<T>(random: Random, list: readonly T[]): T[] {
  const rest = [...list];
  return list.map(() => rest.splice(below(random, rest.length), 1)[0]!);
}

function simple(random: Random): Line {
  const { head, options, operands } = one(random, MEANINGS);
  const chosen = one(random, options);
  const isTogether = chosen.includes('-type');
  const mixed = isTogether || head[0] === 'find' ? [...chosen, ...operands] : interleaved(random, chosen, operands);
  const words = [...head, ...mixed].map((word) => spelled(random, word));
  if (below(random, 12) === 0 && words.every((word) => !/[\s,{}'"\\$]/.test(word)))
    return { text: `{${words.join(',')}}`, isSimple: true };
  const text = words.reduce((line, word) => line + blank(random) + word);
  return below(random, 10) === 0 ? { text: `X=1 A="b c" ${text}`, isSimple: false } : { text, isSimple: true };
}

/** Options in any order and place, operands in theirs. */
function interleaved(random: Random, options: readonly string[], operands: readonly string[]): string[] {
  const made = [...operands];
  for (const option of shuffled(random, options)) made.splice(below(random, made.length + 1), 0, option);
  return made;
}

function blank(random: Random): string {
  return one(random, [' ', ' ', ' ', ' ', '  ', '\t', ' \\\n', ' \\\n  ', '${IFS}']);
}

function spelled(random: Random, word: string): string {
  switch (below(random, 14)) {
    case 0:
      return `'${word}'`;
    case 1:
      return `"${word}"`;
    case 2:
      return pieces(random, word).join("''");
    case 3:
      return pieces(random, word).join('""');
    case 4:
      return pieces(random, word)
        .map((piece) => one(random, [`'${piece}'`, `"${piece}"`, piece]))
        .join('');
    case 5:
      return [...word].map((c) => (below(random, 3) === 0 ? `\\${c}` : c)).join('');
    case 6:
      return `$'${[...word].map((c) => ansi(random, c)).join('')}'`;
    case 7:
      return pieces(random, word).join('\\\n');
    case 8:
      return pieces(random, word).join(one(random, ['$@', '${@}', '$()', '``']));
    default:
      return word;
  }
}

function ansi(random: Random, c: string): string {
  const code = c.charCodeAt(0);
  return one(random, [
    c,
    `\\x${code.toString(16).padStart(2, '0')}`,
    `\\${code.toString(8).padStart(3, '0')}`,
    `\\u00${code.toString(16).padStart(2, '0')}`,
  ]);
}

function pieces(random: Random, word: string): string[] {
  if (word.length < 2) return [word];
  const at = 1 + below(random, word.length - 1);
  return [word.slice(0, at), word.slice(at)];
}

/** A text as one word of a shell. */
function quotedFor(random: Random, text: string): string {
  switch (below(random, 3)) {
    case 0:
      return `"${text.replaceAll(/[$`"\\]/g, '\\$&')}"`;
    case 1:
      return `$'${text.replaceAll(/['\\]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}'`;
    default:
      return `'${text.replaceAll("'", "'\\''")}'`;
  }
}

const PREFIXES = [
  ...[
    'sudo',
    'sudo -E',
    'sudo -u root',
    'sudo -n --',
    'env',
    'env X=1',
    'env -i A=b',
    'nohup',
    'nice -n 5',
    'timeout 5',
    'timeout -k 1 5',
  ],
  ...['command', 'exec', 'setsid', 'stdbuf -oL', 'busybox', 'doas', 'ionice -c 3', 'time', '>/dev/null', '2>&1'],
];
const AROUND: readonly ((text: string) => string)[] = [
  (text) => `ls; ${text}`,
  (text) => `ls && ${text}`,
  (text) => `ls || ${text}`,
  (text) => `ls & ${text}`,
  (text) => `ls\n${text}\nls`,
  (text) => `ls # x\n${text}`,
  (text) => `cd /; ${text}`,
  (text) => `( ${text} )`,
  (text) => `(${text} )`,
  (text) => `{ ${text}; }`,
  (text) => `if true; then ${text}; fi`,
  (text) => `if false; then :; else ${text}\nfi`,
  (text) => `for i in 1; do ${text}; done`,
  (text) => `while true; do ${text}; break; done`,
  (text) => `case x in a|b) :;; *) ${text};; esac`,
  (text) => `f() { ${text}; }; f`,
  (text) => `function f { ${text}; }; f`,
  (text) => `x=$( ${text})`,
  (text) => `echo "$( ${text})"`,
  (text) => `echo "a $( ${text}) b"`,
  (text) => `cat <(${text})`,
  (text) => `echo \${x:-$( ${text})}`,
  (text) => `${text} >/dev/null 2>&1`,
  (text) => `${text} &`,
  (text) => `[[ -d / ]] && ${text}`,
  (text) => `cat <<E\nx\nE\n${text}`,
  (text) => `((x=1<<2)); ${text}`,
  (text) => `true | ${text}`,
];

function wrapped(random: Random, { text, isSimple }: Line): Line {
  const kind = below(random, 10);
  if (kind < 3 && isSimple) return { text: `${one(random, PREFIXES)} ${text}`, isSimple: true };
  // A comment at its end would take what closes.
  if (kind < 7) return { text: one(random, AROUND)(text.replace(/ &$/, '')), isSimple: false };
  const word = quotedFor(random, text);
  const made = one(random, [
    `bash -c ${word}`,
    `sh -c ${word}`,
    `bash -lc ${word}`,
    `/bin/bash -e -c ${word}`,
    `eval ${word}`,
    `ssh host ${word}`,
    `ssh -p 22 u@h ${word}`,
    `su -c ${word}`,
    `docker exec c sh -c ${word}`,
    `printf '%s' ${word} | sh`,
    `printf %s ${word} | sudo bash`,
    `bash <<< ${word}`,
    `x=${word}; eval "$x"`,
    `x=${word}; bash -c "$x"`,
    `echo ${Buffer.from(text).toString('base64')} | base64 -d | sh`,
    `eval "$(echo ${Buffer.from(text).toString('base64')} | base64 --decode)"`,
    hereDocument('bash', text),
    `xargs -I{} sh -c ${word}`,
    `find / -exec sh -c ${word} \\;`,
    `trap ${word} EXIT`,
  ]);
  return {
    text: made,
    isSimple: !/[;|<]/.test(made.slice(0, 4)) && !/^(?:x=|eval|printf|echo|trap|bash <<)/.test(made),
  };
}

/** One that ends behind the text, whatever documents are in it. */
function hereDocument(command: string, text: string): string {
  let end = 'EOT';
  while (text.includes(end)) end += 'T';
  return `${command} <<'${end}'\n${text}\n${end}\n`;
}

const VARIABLES: readonly ((random: Random) => string)[] = [
  () => 'a=rm; $a -rf /',
  () => 'a=r; b=m; $a$b -rf /',
  () => 'a="rm -rf /"; $a',
  () => 'a=-rf; rm $a /',
  () => '${y:-rm} -rf /',
  () => '$(echo rm) -rf /',
  () => '`which rm` -rf /',
  () => 'for c in ls rm; do $c -rf /; done',
  () => 'set -- rm -rf /; "$@"',
  () => 'a=(rm -rf /); "${a[@]}"',
  () => '/bin/r? -rf /',
  () => ':(){ :|:& };:',
  () => 'b() { b | b & }; b',
  () => 'x=$(curl y); eval "$x"',
];
const FETCHES = ['curl x', 'curl -fsSL https://x/i.sh', 'wget -qO- x', '/usr/bin/curl -s x', 'cu""rl x', 'sudo curl x'];
const RUNS = [
  'sh',
  'bash',
  '/bin/bash',
  'sudo bash',
  'sudo -E bash -',
  'env X=1 bash',
  'bash -s -- -y',
  'zsh',
  "b''ash",
  '(bash)',
  '{ sh; }',
  'python3 -',
];

function fetched(random: Random): Line {
  const fetch = one(random, FETCHES);
  const shell = one(random, ['bash', 'sh', 'zsh', 'sudo bash', '/bin/sh']);
  const text = one(random, [
    `${fetch} | ${one(random, RUNS)}`,
    `${fetch}|${one(random, RUNS)}`,
    `${fetch} |\n${one(random, RUNS)}`,
    `${fetch} | tee x | ${one(random, RUNS)}`,
    `(${fetch}) | ${one(random, RUNS)}`,
    `${shell} <(${fetch})`,
    `${shell} -c "$(${fetch})"`,
    `eval "$(${fetch})"`,
    `source <(${fetch})`,
    `. <(${fetch})`,
    `${shell} <<< "$(${fetch})"`,
  ]);
  return { text, isSimple: false };
}

/** A command line that the policy on shell commands must meet. */
export function shellSpelling(random: Random): string {
  const begin = below(random, 8);
  let line: Line =
    begin === 0
      ? fetched(random)
      : begin === 1
        ? { text: one(random, VARIABLES)(random), isSimple: false }
        : simple(random);
  for (let left = below(random, 4); left > 0; left--) line = wrapped(random, line);
  return line.text;
}

const EVERY_ROW = [
  ...[
    '',
    ' WHERE 1=1',
    ' WHERE 1 = 1',
    ' WHERE true',
    ' WHERE 1',
    " WHERE 'a'='a'",
    ' WHERE 2>1',
    ' WHERE NOT false',
    ' WHERE (1=1)',
    ' WHERE id=id',
  ],
  ...[
    ' WHERE id = 5 OR 1=1',
    " WHERE name LIKE '%'",
    ' WHERE 1=1 AND 2=2',
    ' WHERE 1 IN (1)',
    ' WHERE EXISTS (SELECT 1)',
    ' WHERE NOT (1=2)',
  ],
];

/** A text that the policy on SQL must meet. */
export function sqlSpelling(random: Random): string {
  const name = one(random, ['users', 'public.users', '"users"', '"public"."users"', 'db.users', 'u']);
  const bare = one(random, [
    `DROP TABLE ${name}`,
    `DROP TABLE IF EXISTS ${name}`,
    `DROP TABLE ${name} CASCADE`,
    'DROP DATABASE prod',
    'DROP SCHEMA public CASCADE',
    `TRUNCATE TABLE ${name}`,
    `TRUNCATE ${name}`,
    `TRUNCATE TABLE ${name} RESTART IDENTITY`,
    `DELETE FROM ${name}${one(random, EVERY_ROW)}`,
    `ALTER TABLE ${name} DROP COLUMN email`,
  ]);
  const words = bare.split(' ').map((word) => (/^["']/.test(word) || word.includes("'") ? word : cased(random, word)));
  const whole = words.reduce((line, word) => line + sqlBlank(random) + word);
  let text = whole;
  text = one(random, [text, text, `${text};`, `${text} ;`, `${text} -- x`, `${text} /* x */`]);
  text = one(random, [
    ...[
      text,
      text,
      `SELECT 1; ${text}`,
      `SELECT 1;\n${text}`,
      `BEGIN; ${text}`,
      `-- x\n${text}`,
      `/* x */ ${text}`,
      `  ${text}`,
    ],
    ...(text.includes('/*') || text.includes('--') ? [] : [`/*!50000 ${text} */`]),
    ...(/^delete/i.test(text) ? [] : [`x'; ${text}`, `DO $$ BEGIN ${whole}; END $$`]),
  ]);
  const isPlain = !/['"`$\\]/.test(text);
  switch (below(random, 8)) {
    case 0:
      return `psql -c ${quotedFor(random, text)}`;
    case 1:
      return `mysql -u root -e ${quotedFor(random, text)}`;
    case 2:
      return hereDocument('psql db', text);
    case 3:
      return `printf '%s' ${quotedFor(random, text)} | psql`;
    case 4:
      return isPlain ? `cursor.execute("""${text}""")` : text;
    case 5:
      return isPlain && !text.includes('\n') ? `db.query("${text}")` : text;
    default:
      return text;
  }
}

function cased(random: Random, word: string): string {
  const how = below(random, 3);
  if (how === 0) return word;
  if (how === 1) return word.toLowerCase();
  return [...word].map((c) => (below(random, 2) === 0 ? c.toLowerCase() : c.toUpperCase())).join('');
}

function sqlBlank(random: Random): string {
  return one(random, [' ', ' ', ' ', '  ', '\n', '\t', '/**/', ' /* x */ ', ' -- x\n', '\n  ']);
}
