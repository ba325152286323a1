// A line of the log for the person at a terminal (inside log.ts): what happens, in a sentence where there is one, and
// what is wrong with all that is said of it. Pure.
// Invariant: whatever a line holds takes one line, and nothing in it is a command to the terminal; of what says nothing
// to a person the text is empty.

type Line = { level: string; time: string; process: string; msg: string } & Record<string, unknown>;

/** undefined: nothing. */
const SENTENCES: Record<string, (line: Line) => string | undefined> = {
  'process.starting': ({ settings }) =>
    `starting, data in ${(settings as Record<string, string>)['GATEHOUSE_DATA_DIR']}`,
  'engines.starting': ({ engines }) => {
    const own = engines as string[];
    return own.length === 0 ? 'looking for Redis and ClickHouse' : `starting ${own.join(' and ')}`;
  },
  'stores.preparing': () => 'making the tables and the first account, where they are not there yet',
  'workers.starting': ({ fronts, backtests }) =>
    `starting ${counted(fronts, 'front')}, the pipelines and ${counted(backtests, 'process', 'es')} for backtests`,
  'process.ready': () => 'ready',
  'process.draining': () => 'finishing what it has accepted',
  'process.drained': () => 'done',
  'streams.compared_from_their_start': () => undefined,
};
const VALUE_CHARACTERS_MAX = 300;

/** `json`: a line of the log with its end. */
export function lineForPeople(json: string): string {
  let line: Line;
  try {
    line = JSON.parse(json) as Line;
  } catch {
    return json;
  }
  const { level, time, process: name, msg, pid: _pid, ...fields } = line;
  const clock = new Date(time).toTimeString().slice(0, 8);
  const sentence = SENTENCES[msg];
  if (level === 'info' && sentence !== undefined) {
    const text = sentence(line);
    return text === undefined ? '' : `${clock} ${plain(`${name}: ${text}`)}\n`;
  }
  const said = Object.entries(fields).map(([field, value]) => ` ${field}=${textOf(value)}`);
  const grave = level === 'info' ? '' : `${level === 'warn' ? 'warning' : level} `;
  return `${clock} ${grave}${plain(`${name}: ${msg}${said.join('')}`)}\n`;
}

function counted(count: unknown, one: string, plural = 's'): string {
  return `${count} ${count === 1 ? one : `${one}${plural}`}`;
}

/** Writes what an error says; where it was thrown is for the JSON of the log. */
function textOf(value: unknown): string {
  const { message } = (value ?? {}) as { message?: unknown };
  const text = typeof message === 'string' ? message : typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX)}…` : text;
}

function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ');
}
