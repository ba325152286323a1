// What is wrong with a policy that is to be created: every mistake with its path in the request's
// body. Thrown by checkPolicy before anything is kept; the registry turns it into `validation_failed`. Never thrown
// while an event is judged.
import type { ErrorDetail } from '../../schemas/error.ts';
import { pointerKey } from '../common/validation.ts';
import type { PatternAllowance } from './text-search/pattern-allowance.ts';

export class PolicyError extends Error {
  override name = 'PolicyError';
  readonly details: ErrorDetail[];

  constructor(details: ErrorDetail[]) {
    super(details.map(({ path, message }) => `${path} ${message}`).join('; '));
    this.details = details;
  }
}

/** Collects the mistakes of one policy, so that its author sees all of them at once. */
export class Mistakes {
  readonly details: ErrorDetail[] = [];

  add(path: string, message: string): void {
    this.details.push({ path, message });
  }

  throwIfAny(): void {
    if (this.details.length > 0) throw new PolicyError(this.details);
  }
}

/** The context in which the parts of one policy are read: where mistakes go, and what its patterns may cost. */
export type PolicyReading = {
  readonly mistakes: Mistakes;
  readonly patterns: PatternAllowance;
};

/** A JSON pointer one step deeper. */
export function below(path: string, key: string | number): string {
  return `${path}/${pointerKey(String(key))}`;
}
