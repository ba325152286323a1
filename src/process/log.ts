// The one way to log: pino, a JSON line each, to standard error; where that is a terminal a line for people each
// (log-for-people.ts). Standard output is for people (`gatehouse start`, the CLI). Used everywhere. Every line names
// its process and part: `log.child({ part: 'store' })`.
// Invariant: fixed messages (`batch.flushed`) with fields; never a payload, a key or a secret. The fields that could
// carry one by mistake are masked as a last net, not as a licence, and so are the values of secret settings wherever
// they are in a line: libraries repeat addresses in their errors. A write to a stream whose reader is gone is
// dropped.
import { pino } from 'pino';
import type { Config } from './config.ts';
import { lineForPeople } from './log-for-people.ts';

export type Log = {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  info(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  child(fields: Record<string, unknown>): Log;
  isLevelEnabled(level: string): boolean;
};

type LogLevel = Config['logLevel'];

const MASKED = ['key', 'apiKey', 'authorization', 'password', 'payload', 'secret', 'token', 'headers', 'body'];

/**
 * `processName` is for people: `front-1`, `pipelines`. Errors go into the field `err`.
 * Lines are written at once and in order: what a process says before it dies is what one needs to read (2 µs a line).
 */
export function createLog(options: {
  level: LogLevel;
  processName: string;
  /** Left out: JSON. */
  format?: Config['logFormat'];
  /** Masked wherever they are in a line; see `secretsIn` of config.ts. */
  secrets?: readonly string[];
}): Log {
  const destination = pino.destination({ dest: 2, sync: true });
  const { format = 'json' } = options;
  const isText = format === 'text' || (format === 'auto' && process.stderr.isTTY === true);
  const mask = maskOf(options.secrets ?? []);
  destination.on('error', () => undefined);
  return pino(
    {
      level: options.level,
      base: { process: options.processName, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      redact: { paths: MASKED, censor: '[masked]' },
      hooks: { streamWrite: isText ? (line) => lineForPeople(mask(line)) : mask },
    },
    destination,
  );
}

/** Shorter ones, a database's number or a word of English, would blacken lines that have nothing to do with them. */
const SECRET_CHARACTERS_MIN = 6;

function maskOf(secrets: readonly string[]): (line: string) => string {
  // As they are in a line of JSON; the longest first, for an address holds its password.
  const written = [...new Set(secrets)]
    .filter((secret) => secret.length >= SECRET_CHARACTERS_MIN)
    .map((secret) => JSON.stringify(secret).slice(1, -1))
    .sort((a, b) => b.length - a.length);
  return (line) => written.reduce((text, secret) => text.replaceAll(secret, '[masked]'), line);
}

/**
 * The form of an error in the log. One that is known to go away and come back (a `canRetry` of its own says so) has no
 * stack there: many parts notice at once. Redis's client hangs the refused command on its errors, with all that was to
 * be written: secrets, payloads. Its name is enough.
 */
export function describeError(error: unknown): unknown {
  if (error instanceof Error && 'canRetry' in error) return { type: error.name, message: error.message };
  const described: unknown = pino.stdSerializers.err(error as Error);
  if (!(error instanceof Error) || !('command' in error)) return described;
  const { command } = error as { command: string | { name?: string } };
  return { ...(described as object), command: typeof command === 'string' ? command : command?.name };
}
