// Says on the terminal what went wrong (the command line, and programs that are started by hand).
import { UserFacingError } from '../common/user-facing-error.ts';
import type { Log } from './log.ts';

/** undefined: not for people. */
export function userFacingMessage(error: unknown): string | undefined {
  return error instanceof UserFacingError ? error.message : undefined;
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
