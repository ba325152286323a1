// Finds the commands that a program in another language has a shell run, by the names of calls that do so:
// `os.system("…")`, `subprocess.run(["…", "…"])`, `exec("…")` (used by shell-condition.ts and shell-runs.ts).
// Invariant: work is charged, and strings and lists that are looked at are bounded; what is longer is no call.
import { readShell } from './shell-reader.ts';
import type { ShellReading } from './shell-words.ts';

/** A call that runs a text or a list of words, up to the quote of its first. */
const CALL =
  /\b(?:\w{0,24}(?:system|popen|exec|spawn|run|call|output|shell|bash|command|cmd|sh)\w{0,24}\s{0,8}\(|(?:system|exec|popen|spawn)\s{1,8})\s{0,8}(\[\s{0,8})?[frbu]{0,2}(['"`])/gi;
const LIST_ITEM = /\s*[frbu]{0,2}(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)")\s*(,|\])?/y;
const STRINGS: Readonly<Record<string, RegExp>> = {
  "'": /((?:[^'\\]|\\[\s\S]){0,4096})'/y,
  '"': /((?:[^"\\]|\\[\s\S]){0,4096})"/y,
  '`': /((?:[^`\\]|\\[\s\S]){0,4096})`/y,
};
const MAY_CALL = /\(|(?:system|exec|popen|spawn)\s/i;
const CALL_UNITS = 6;
const STRING_CHARACTERS_MAX = 4_096;

/** Texts that a program in another language has a shell run, by the names of calls that do so. Throws OverBudget. */
export function readCode(
  reading: ShellReading & { runArguments(words: readonly string[]): void },
  text: string,
  depth = 0,
): void {
  if (!MAY_CALL.test(text)) return;
  reading.budget.spend(CALL_UNITS * text.length);
  const calls: { at: number; isList: boolean; mark: string }[] = [];
  for (const found of text.matchAll(CALL)) {
    calls.push({ at: found.index + found[0].length, isList: found[1] !== undefined, mark: found[2]! });
  }
  for (const { at, isList, mark } of calls) {
    if (isList) {
      const words = listAt(text, at - 1);
      reading.budget.spend(CALL_UNITS * words.length);
      if (words.length > 0) reading.runArguments(words);
      continue;
    }
    const string = STRINGS[mark]!;
    string.lastIndex = at;
    const found = string.exec(text);
    reading.budget.spend(CALL_UNITS * (found?.[0].length ?? STRING_CHARACTERS_MAX));
    if (found !== null) readShell(reading, found[1]!.replaceAll(/\\(['"`])/g, '$1'), depth + 1);
  }
}

const LIST_ITEMS_MAX = 64;

function listAt(text: string, at: number): string[] {
  const words: string[] = [];
  LIST_ITEM.lastIndex = at;
  for (let found = LIST_ITEM.exec(text); found !== null; found = LIST_ITEM.exec(text)) {
    words.push(found[1] ?? found[2]!);
    if (found[3] !== ',' || words.length >= LIST_ITEMS_MAX) break;
  }
  return words;
}
