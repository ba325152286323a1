// What a command prints, where its words and its input say it: `echo`, `printf`, `cat`, `base64 -d`, `tr` and the like.
// Used by shell-runs.ts, for `$(…)` and for what is piped into a shell. Pure, over strings.
import { UNKNOWN, withEscapes } from './shell-expansions.ts';
import { baseName, type Word } from './shell-words.ts';

/** More of what `printf` repeats is left out. */
const PRINTED_MAX = 4_096;

/** null: unknown. `input`: what it reads. */
export function printedOf(words: readonly Word[], input: string | null): string | null {
  const name = baseName(words[0]!.texts.at(-1)!);
  const rest = words.slice(1).map(({ texts }) => texts.at(-1)!);
  switch (name) {
    case 'echo': {
      const start = rest.findIndex((text) => !/^-[neE]+$/.test(text));
      const text = start < 0 ? '' : rest.slice(start).join(' ');
      return `${withEscapes(text)}\n`;
    }
    case 'printf':
      return printed(rest[0] === '--' ? rest.slice(1) : rest);
    case 'which':
    case 'command':
    case 'type':
      return rest.at(-1) ?? null;
    case 'cat':
      return rest.some((text) => !text.startsWith('-')) ? null : input;
    case 'tee':
      return input;
    case 'base64':
      return rest.some((text) => /^(?:-\w*[dD]\w*|--d(?:ecode)?\w*)$/.test(text)) ? decoded(input, 'base64') : null;
    case 'openssl':
      return rest.includes('-d') ? decoded(input, 'base64') : null;
    case 'xxd':
      return rest.some((text) => /^-\w*r/.test(text)) ? decoded(input, 'hex') : null;
    case 'rev':
      return input === null ? null : input.split('\n').map(reversed).join('\n');
    case 'tr':
      return input === null ? null : translated(input, rest);
    default:
      return null;
  }
}

function decoded(text: string | null, encoding: 'base64' | 'hex'): string | null {
  return text === null ? null : Buffer.from(text.replaceAll(/\s/g, ''), encoding).toString();
}

function reversed(line: string): string {
  return [...line].reverse().join('');
}

/** `printf` of plain formats. */
function printed([format, ...values]: readonly string[]): string | null {
  if (format === undefined) return null;
  let next = 0;
  const once = () =>
    withEscapes(format).replaceAll(/%(?:%|-?\d*(?:\.\d+)?([sbdiqcx]))/g, (whole, kind) => {
      if (kind === undefined) return '%';
      const value = values[next++] ?? '';
      if (whole.length > 2) return UNKNOWN;
      return kind === 'b' ? withEscapes(value) : kind === 'c' ? value.slice(0, 1) : value;
    });
  let text = once();
  while (next > 0 && next < values.length && text.length < PRINTED_MAX) text += once();
  return text;
}

/** `tr`, of plain sets and ranges. */
function translated(text: string, [first = '', second = '']: readonly string[]): string | null {
  if (/^-d$|^--delete$/.test(first)) {
    const dropped = new Set(charactersOf(second));
    return [...text].filter((c) => !dropped.has(c)).join('');
  }
  if (first.startsWith('-') || second === '') return null;
  const [from, to] = [charactersOf(first), charactersOf(second)];
  const places = new Map(from.map((c, i) => [c, to[Math.min(i, to.length - 1)]!]));
  return [...text].map((c) => places.get(c) ?? c).join('');
}

function charactersOf(set: string): string[] {
  return [
    ...withEscapes(set)
      .slice(0, 256)
      .replaceAll(/(\S)-(\S)/g, (_, a: string, b: string) => {
        const [start, end] = [a.charCodeAt(0), b.charCodeAt(0)];
        return end < start || end - start > 256
          ? `${a}-${b}`
          : Array.from({ length: end - start + 1 }, (_, i) => String.fromCharCode(start + i)).join('');
      }),
  ];
}
