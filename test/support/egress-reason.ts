// What came of an attempt to reach a target, as a word: the reason of an EgressError, or `answered`.
import { EgressError } from '../../src/egress/guarded-tls.ts';

export async function reasonOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof EgressError) return error.reason;
    throw error;
  }
  return 'answered';
}
