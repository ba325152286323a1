// What a command runs: the command behind `sudo` or `xargs`, the text behind `sh -c`, `eval` or `ssh`, what is piped
// into a shell. Between shell-reader.ts, which finds the commands of a text, and shell-condition.ts, which asks what
// they do.
// Invariant: each command is shown once for itself and once for each that it runs, with its number; what a text
// inside runs has the same input. Commands that are not in the tables run nothing.
import { SHELL_RUNS_MAX } from '../../common/limits.ts';
import { type Budget, OVER_BUDGET } from '../budget.ts';
import { readCode } from './shell-calls.ts';
import { UNKNOWN } from './shell-expansions.ts';
import { printedOf } from './shell-output.ts';
import { readShell } from './shell-reader.ts';
import {
  baseName,
  isEmpty,
  joined,
  literal,
  NONE,
  outputOf,
  type Range,
  type ShellReading,
  type SimpleCommand,
  setVariable,
  simpleCommand,
  spendOnForms,
  type Word,
} from './shell-words.ts';

/** Learns of the commands of a text, in their order. */
export type Observer = {
  /** The command at `from` of the words, by the names that it may have. Several for one that runs another. */
  onCommand(names: readonly string[], words: readonly Word[], from: number, command: SimpleCommand): void;
  /** An interpreter runs what is piped into it, or the output of the commands in `output`. */
  onProgram(names: readonly string[], output: readonly Range[]): void;
};

/** Options that take the next word, by letter and by name, and words to pass over before the command itself. */
type Prefix = { letters?: string; names?: readonly string[]; skip?: number };

const PREFIXES: ReadonlyMap<string, Prefix> = new Map<string, Prefix>([
  ['sudo', { letters: 'ugpCTRUrtDh', names: ['user', 'group', 'prompt', 'chdir', 'host', 'chroot', 'role', 'type'] }],
  ['doas', { letters: 'uCa' }],
  ['env', { letters: 'uC', names: ['unset', 'chdir'] }],
  ['time', { letters: 'fo', names: ['format', 'output'] }],
  ['nice', { letters: 'n', names: ['adjustment'] }],
  ['ionice', { letters: 'cnpPu', names: ['class', 'classdata'] }],
  ['timeout', { letters: 'ks', names: ['signal', 'kill-after'], skip: 1 }],
  ['stdbuf', { letters: 'ioe', names: ['input', 'output', 'error'] }],
  [
    'xargs',
    { letters: 'EILnPsadR', names: ['max-args', 'max-procs', 'max-lines', 'max-chars', 'delimiter', 'arg-file'] },
  ],
  ['exec', { letters: 'a' }],
  ['chroot', { skip: 1 }],
  ['nsenter', { letters: 'tSG', names: ['target'] }],
  ['strace', { letters: 'eoapsuPEXbI' }],
  ['ltrace', { letters: 'eoapsunl' }],
  ['flock', { letters: 'wEc', names: ['timeout'], skip: 1 }],
  ['taskset', { skip: 1 }],
  ['chrt', { skip: 1 }],
  ['caffeinate', { letters: 'tw' }],
  ['proxychains', { letters: 'f' }],
  ['proxychains4', { letters: 'f' }],
  ['systemd-run', { letters: 'pMGuHE', names: ['unit', 'property', 'machine', 'uid', 'gid', 'slice', 'description'] }],
  ['gosu', { skip: 1 }],
  ['su-exec', { skip: 1 }],
  ['setarch', { skip: 1 }],
  ['runuser', { letters: 'ugGcs' }],
  ['su', { letters: 'cgGs', skip: 1 }],
  ['firejail', {}],
  ['gdb', {}],
  ...['nohup', 'setsid', 'command', 'builtin', 'busybox', 'toybox', 'unshare', 'pkexec', 'torsocks', 'unbuffer'].map(
    (name): [string, Prefix] => [name, {}],
  ),
  ...['eatmydata', 'fakeroot', 'catchsegv', 'coproc', 'linux32', 'linux64', 'rlwrap', 'dbus-run-session'].map(
    (name): [string, Prefix] => [name, {}],
  ),
  ...['xvfb-run', 'noglob', 'nocorrect', 'wsl', 'ssh-agent', 'then', 'do'].map((name): [string, Prefix] => [name, {}]),
]);
/** Their words together are a text that is run. */
const JOINING: ReadonlyMap<string, Prefix> = new Map<string, Prefix>([
  ['eval', {}],
  ['ssh', { letters: 'bcDEeFIiJLlmOopQRSWw', skip: 1 }],
  ['watch', { letters: 'nqs', names: ['interval'] }],
  ['parallel', { letters: 'jNnIaSLPd', names: ['jobs', 'max-args'] }],
  ['adb', { letters: 'sHPtL', skip: 1 }],
]);
/** Any of their words may be the command, or a text that is run, once one of these words came. */
const CONTAINERS: ReadonlySet<string> = new Set(
  'docker podman nerdctl kubectl oc lxc incus crictl docker-compose heroku fly flyctl gcloud vagrant multipass'.split(
    ' ',
  ),
);
const CONTAINER_RUNS: ReadonlySet<string> = new Set(['exec', 'run', 'shell', 'ssh', 'rsh', 'debug', '--']);
const CONTAINER_WORDS_MAX = 32;
const SHELLS: ReadonlySet<string> = new Set(
  'sh bash zsh dash ksh ksh93 mksh pdksh ash fish csh tcsh rbash yash osh bash5'.split(' '),
);
const INTERPRETER =
  /^(?:python[\d.]*|pypy\d*|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|php\d*|lua[\d.]*|tclsh|pwsh|osascript)$/;
const FIND_RUNS: ReadonlySet<string> = new Set(['-exec', '-execdir', '-ok', '-okdir']);
/** Their options `-c` and `-e` are no commands. */
const QUOTING: ReadonlySet<string> = new Set(
  'grep egrep fgrep zgrep rg ag ack sed awk gawk jq yq echo printf man psql mysql mariadb sqlite3 cat tail head wc'.split(
    ' ',
  ),
);
const RUN_OPTION = /^(?:-\w*[ceSx]|--(?:command|exec|execute|run|cmd|eval|split-string|shell-command))$/;
const RUN_OPTION_WITH_VALUE =
  /^(?:-S|-oProxyCommand=|--(?:command|exec|execute|run|cmd|eval|split-string|shell-command|to-command|rsh|checkpoint-action|use-compress-program)=)/;
/** A command of git runs another only where it says that it is one of the shell. */
const GIT_RUNS = /^(?:-c\s*)?[\w.-]+=!/;
/** `alias.x=!`, `ProxyCommand=`, `exec=` */
const SETTING = /^(?:(?:[\w.-]+=)*!|(?:ProxyCommand|exec|rsh|command)=)/;
const ALIAS = /^[^=\s]*=/;
const ASSIGNS: ReadonlySet<string> = new Set(['export', 'declare', 'local', 'readonly', 'typeset']);
const ASSIGNED = /^([A-Za-z_]\w*)=([\s\S]*)$/;

/** The command of a text that runs another, how deep in texts it is, and how many run each other. */
type RunAt = { command: SimpleCommand; depth: number; level: number };

export class ShellRun implements ShellReading {
  readonly budget: Budget;
  readonly commands: SimpleCommand[] = [];
  readonly variables = new Map<string, Word>();
  hasForkBomb = false;
  readonly #observer: Observer;

  constructor(budget: Budget, observer: Observer) {
    this.budget = budget;
    this.#observer = observer;
  }

  /** A command whose words are known: nothing of them is expanded. */
  runArguments(words: readonly string[]): void {
    const command = simpleCommand(this.commands.length, words.map(literal));
    this.commands.push(command);
    this.run(command, 0);
  }

  run(command: SimpleCommand, depth: number): void {
    const { words } = command;
    command.said = this.#saidTo(command);
    command.output = joined(joined(command.said, command.input?.output ?? NONE), outputOf(words));
    this.#observer.onCommand([], words, words.length, command);
    if (words.length === 0) return;
    this.#runAt(words, 0, { command, depth, level: 0 });
    command.printed = printedOf(words, this.#input(command));
  }

  #runAt(words: readonly Word[], from: number, at: RunAt): void {
    const first = words[from];
    if (first === undefined) return;
    if (at.level > SHELL_RUNS_MAX) throw OVER_BUDGET;
    const { command, depth } = at;
    this.budget.spend(COMMAND_UNITS + 4 * (words.length - from));
    spendOnForms(this.budget, first.texts, 1);
    const names = [...new Set(first.texts.map(baseName))];
    this.#observer.onCommand(names, words, from, command);
    for (const name of names) this.#runNamed(name, names, words, from, { ...at, level: at.level + 1 });
    if (!names.some((name) => QUOTING.has(name))) this.#readOptions(names, words, from, command, depth);
  }

  #runNamed(name: string, names: readonly string[], words: readonly Word[], from: number, at: RunAt): void {
    const { command, depth } = at;
    const prefix = PREFIXES.get(name);
    const joining = JOINING.get(name);
    if (name === 'xargs') this.#runXargs(words, from, at);
    else if (name === 'command' && /^-[pvV]*[vV]/.test(textAt(words, from + 1))) return;
    else if (prefix !== undefined) {
      const inner = innerAt(words, from, prefix);
      this.#runAt(words, inner, at);
      // `su root -c …`, `su - root …`: the user may be left out.
      if (name === 'flock' || name === 'coproc') this.#runAt(words, inner + 1, at);
    } else if (joining !== undefined) {
      const rest = words.slice(innerAt(words, from, joining, false));
      if (name === 'eval') this.#observer.onProgram(names, [outputOf(rest)]);
      this.#read(rest.map(({ texts }) => texts.at(-1)!).join(' '), command, depth);
    } else if (SHELLS.has(name)) this.#runShell(names, words, from, at);
    else if (INTERPRETER.test(name)) this.#runInterpreter(names, words, from, command);
    else if (name === 'source' || name === '.') {
      const file = words[from + 1];
      const isInput = file !== undefined && STANDARD_INPUT.has(file.texts[0]!);
      this.#observer.onProgram(names, [file?.output ?? NONE, ...(isInput ? inputOf(command) : [])]);
      if (isInput) this.#readInput(command, depth);
    } else if (name === 'find' || name === 'fd' || name === 'fdfind') {
      for (let i = from + 1; i < words.length; i++) if (isFindRun(textAt(words, i))) this.#runAt(words, i + 1, at);
    } else if (name === 'trap') this.#read(textAt(words, from + 1), command, depth);
    else if (name === 'alias')
      for (const word of words.slice(from + 1)) this.#read(word.texts[0]!.replace(ALIAS, ''), command, depth);
    else if (name === 'at' || name === 'batch') this.#readInput(command, depth);
    else if (name === 'tmux' || name === 'screen')
      for (const word of words.slice(from + 1))
        if (hasBlank(word.texts[0]!)) this.#read(word.texts[0]!, command, depth);
    if (CONTAINERS.has(name)) this.#runInContainer(words, from, at);
    if (ASSIGNS.has(name))
      for (const word of words.slice(from + 1)) {
        const found = ASSIGNED.exec(word.texts[0]!);
        if (found !== null) setVariable(this.variables, found[1]!, { ...word, texts: [found[2]!] });
      }
    if (name === 'set') this.#setArguments(words, from);
    if (name === 'read' || name === 'mapfile' || name === 'readarray') {
      const upstream = this.#input(command);
      const value = { ...literal(upstream ?? UNKNOWN), output: inputOf(command).reduce(joined) };
      for (const word of words.slice(from + 1)) setVariable(this.variables, word.texts[0]!, value);
    }
  }

  #setArguments(words: readonly Word[], from: number): void {
    const start = words.findIndex((word, i) => i > from && word.texts[0] === '--');
    if (start < 0) return;
    const rest = words.slice(start + 1);
    const all = literal(rest.map(({ texts }) => texts[0]).join(' '));
    for (const name of ['@', '*']) this.variables.set(name, all);
    for (const [i, word] of rest.slice(0, 9).entries()) this.variables.set(String(i + 1), word);
  }

  #runXargs(words: readonly Word[], from: number, at: RunAt): void {
    const inner = innerAt(words, from, PREFIXES.get('xargs')!);
    const given = this.#input(at.command);
    const replaced = words.findIndex(({ texts }, i) => i > from && i < inner && /^-(?:I|i)/.test(texts[0]!));
    if (given === null || given.length > GIVEN_MAX) {
      this.#runAt(words, inner, at);
      return;
    }
    const mark = replaced < 0 ? null : textAt(words, replaced).slice(2) || textAt(words, replaced + 1) || '{}';
    const rest = words.slice(inner);
    const made =
      mark === null
        ? [
            ...rest,
            ...given
              .split(/[\s\0]+/)
              .filter(Boolean)
              .map(literal),
          ]
        : rest.map((word) => ({ ...word, texts: word.texts.map((text) => text.replaceAll(mark, () => given.trim())) }));
    this.#runAt(made, 0, at);
  }

  #runInContainer(words: readonly Word[], from: number, at: RunAt): void {
    let isInside = false;
    for (let i = from + 1; i < Math.min(words.length, from + CONTAINER_WORDS_MAX); i++) {
      const text = textAt(words, i);
      if (isInside && !text.startsWith('-')) this.#runAt(words, i, at);
      isInside ||= CONTAINER_RUNS.has(text);
    }
  }

  #runShell(names: readonly string[], words: readonly Word[], from: number, { command, depth }: RunAt): void {
    let isText = false;
    let isInput = false;
    for (let i = from + 1; i < words.length; i++) {
      const word = words[i]!;
      const text = word.texts[0]!;
      if (/^[-+]./.test(text) && text !== '--') {
        if (/^-[a-zA-Z]*c/.test(text)) isText = true;
        if (/^-[a-zA-Z]*s/.test(text)) isInput = true;
        if (/^[-+]\w*[oO]$|^--(?:rcfile|init-file)$/.test(text)) i++;
        continue;
      }
      if (text === '--') continue;
      if (isText) {
        this.#observer.onProgram(names, [word.output]);
        for (const one of word.texts) this.#read(one, command, depth);
        return;
      }
      if (isInput || STANDARD_INPUT.has(text)) break;
      this.#observer.onProgram(names, [word.isProcess ? word.output : NONE]);
      return;
    }
    if (isText) return;
    this.#observer.onProgram(names, inputOf(command));
    this.#readInput(command, depth);
  }

  #runInterpreter(names: readonly string[], words: readonly Word[], from: number, command: SimpleCommand): void {
    for (let i = from + 1; i < words.length; i++) {
      const word = words[i]!;
      const text = word.texts[0]!;
      if (STANDARD_INPUT.has(text)) break;
      if (/^-[a-zA-Z]*[ceEmrnp]$|^--(?:eval|print|module)$/.test(text)) {
        this.#observer.onProgram(names, [words[i + 1]?.output ?? NONE]);
        return;
      }
      if (text.startsWith('-')) continue;
      this.#observer.onProgram(names, [word.isProcess ? word.output : NONE]);
      return;
    }
    this.#observer.onProgram(names, inputOf(command));
  }

  /** Texts in options that are run: `-c`, `--command=`. */
  #readOptions(
    names: readonly string[],
    words: readonly Word[],
    from: number,
    command: SimpleCommand,
    depth: number,
  ): void {
    const isGit = names.includes('git');
    const isShell = names.some((name) => SHELLS.has(name));
    const isInterpreter = names.some((name) => INTERPRETER.test(name));
    for (let i = from + 1; i < words.length; i++) {
      for (const text of words[i]!.texts) {
        // Blanks may be made by the shell that reads it.
        if (!/[\s{$]/.test(text)) continue;
        readCode(this, text, depth);
        if (isShell || isInterpreter) continue;
        if (isGit) {
          const before = textAt(words, i - 1);
          if (GIT_RUNS.test(text) || before === '-x' || before === '--exec')
            this.#read(text.replace(SETTING, ''), command, depth);
          continue;
        }
        if (RUN_OPTION.test(textAt(words, i - 1)) && i - 1 > from)
          this.#read(text.replace(SETTING, ''), command, depth);
        else if (RUN_OPTION_WITH_VALUE.test(text))
          this.#read(text.replace(RUN_OPTION_WITH_VALUE, '').replace(SETTING, ''), command, depth);
      }
    }
  }

  /** Commands whose output is in what those before it in its pipe were given. */
  #saidTo({ piped }: SimpleCommand): Range {
    if (piped.to - piped.from > PIPED_LOOKED_AT_MAX) return { from: 0, to: piped.to };
    return this.commands.slice(piped.from, piped.to).reduce((sum, { output }) => joined(sum, output), NONE);
  }

  #read(text: string, { piped }: SimpleCommand, depth: number): void {
    if (text !== '' && text !== UNKNOWN) readShell(this, text, depth + 1, piped);
  }

  #readInput(command: SimpleCommand, depth: number): void {
    const text = this.#input(command);
    if (text !== null) readShell(this, text, depth + 1);
  }

  /** The input of a command, where the text says it; null: it does not. */
  #input({ input, piped }: SimpleCommand): string | null {
    if (input !== null) return input.texts[0]!;
    return isEmpty(piped) ? null : this.commands[piped.to - 1]!.printed;
  }
}

/** Reading and looking up one command, about 1.5 µs. */
const COMMAND_UNITS = 600;
const GIVEN_MAX = 4_096;
/** Commands before a pipe, as in a loop: more are taken for all that came. */
const PIPED_LOOKED_AT_MAX = 64;
const CLUSTER_MAX = 64;
const STANDARD_INPUT: ReadonlySet<string> = new Set(['-', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0']);

function inputOf({ piped, input, said }: SimpleCommand): Range[] {
  return [piped, input?.output ?? NONE, said];
}

function textAt(words: readonly Word[], i: number): string {
  return words[i]?.texts[0] ?? '';
}

function hasBlank(text: string): boolean {
  return /\s/.test(text);
}

function isFindRun(text: string): boolean {
  return FIND_RUNS.has(text) || text === '-x' || text === '-X' || text === '--exec' || text === '--exec-batch';
}

/** Where the command behind the options of another begins. */
function innerAt(
  words: readonly Word[],
  from: number,
  { letters = '', names = [], skip = 0 }: Prefix,
  mayAssign = true,
): number {
  let i = from + 1;
  let isOver = false;
  for (; i < words.length; i++) {
    const text = textAt(words, i);
    if (text === '--') isOver = true;
    else if (!isOver && text.startsWith('--')) {
      if (names.includes(text.slice(2))) i++;
    } else if (!isOver && text.startsWith('-') && text.length > 1) {
      // The first letter that takes a value takes the rest of the word, or the next one.
      const taking = [...text.slice(1, 1 + CLUSTER_MAX)].findIndex((letter) => letters.includes(letter));
      if (taking === text.length - 2) i++;
    } else if (text !== '-' && !(mayAssign && ASSIGNED.test(text))) break;
  }
  return i + skip;
}
