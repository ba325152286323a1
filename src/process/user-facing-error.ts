// Errors that are for the person at the terminal: their message is a sentence about something that person can change.
// Used by the command line and by processes that are started by hand. Everything else is a bug and is shown whole.
// By name, so that saying what went wrong does not need every part loaded that could have failed.
import type { Log } from './log.ts';

/** Where a store is has not been said. */
export class AddressMissing extends Error {
  override name = 'AddressMissing';
}

/** The HTTP server that was asked for cannot serve here. */
export class TransportRefused extends Error {
  override name = 'TransportRefused';
}

const FOR_PEOPLE = new Set([
  'AddressMissing',
  'AuditInvalid',
  'CheckpointError',
  'ChildFailed',
  'ClickHouseError',
  'ConfigError',
  'FileLockError',
  'MigrationError',
  'NotEmpty',
  'RedisServerError',
  'RedisUnavailable',
  'ServiceError',
  'StartError',
  'StateDirError',
  'StoreError',
  'TransportRefused',
  'UsageError',
]);

/** undefined: not for people. */
export function userFacingMessage(error: unknown): string | undefined {
  return error instanceof Error && FOR_PEOPLE.has(error.name) ? error.message : undefined;
}

/** While something takes its time. */
export function writeToTerminal(line: string): void {
  process.stderr.write(`gatehouse: ${line}\n`);
}

/** On standard error, where the person looks; a bug goes to the log. */
export function reportFailure(error: unknown, log: Log): void {
  const sentence = userFacingMessage(error);
  if (sentence === undefined) log.error({ err: error }, 'process.start_failed');
  else writeToTerminal(sentence);
}
