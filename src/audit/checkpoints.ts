// Checkpoints for callers of the API (behind the handlers; the command line has its own way to the same parts).
// Bounded: a caller waits CHECKPOINT_MS_MAX at most for the chains to be in ClickHouse.
// Failure: ServiceError; what is wrong with a checkpoint names the field of the body that holds it.
import { isoTime } from '../../schemas/time.ts';
import { ServiceError } from '../common/errors.ts';
import { CHAIN_FLUSH_MS } from '../common/limits.ts';
import { validationFailed } from '../common/validation.ts';
import type { Remembered } from './chain-cursor.ts';
import {
  type Checkpoint,
  CheckpointError,
  readCheckpoint,
  readPublicKey,
  rememberedOf,
  signCheckpoint,
} from './checkpoint.ts';
import { flushedHeads } from './flushed-heads.ts';
import { isVouchedFor, successions } from './key-successions.ts';
import { ownPublicKey, signingKey } from './signing-key.ts';
import type { Stores } from './sources.ts';

/** A flush and what may be before it. */
const CHECKPOINT_MS_MAX = 3 * CHAIN_FLUSH_MS;

export class Checkpoints {
  readonly #stores: Stores;
  readonly #dataDir: string;

  constructor(options: Stores & { dataDir: string }) {
    this.#stores = options;
    this.#dataDir = options.dataDir;
  }

  /** Throws ServiceError unavailable. */
  async take(account: { id: string; name: string }, settle: () => Promise<boolean>): Promise<Checkpoint> {
    try {
      const chains = await flushedHeads(this.#stores, account.id, { settle, timeoutMs: CHECKPOINT_MS_MAX });
      const { id, name } = account;
      return signCheckpoint({ account: id, name, at: isoTime(Date.now()), chains }, signingKey(this.#dataDir));
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      throw new ServiceError('unavailable', `No checkpoint can be taken now: ${error.message}.`, {
        retryAfterSeconds: 5,
      });
    }
  }

  /**
   * The entries that a checkpoint remembers, by chain, if it is of this account and signed with the key that is
   * trusted, or one of its line. Throws ServiceError validation_failed.
   */
  read(account: string, given: object, publicKey: string | undefined): Map<string, Remembered> {
    try {
      const key = publicKey === undefined ? ownPublicKey(this.#dataDir) : readPublicKey(publicKey);
      if (key === undefined)
        throw new CheckpointError('name the public key that is to be trusted: this front has none');
      const pairs = successions(this.#dataDir);
      const checkpoint = readCheckpoint(JSON.stringify(given), (signer) => isVouchedFor(signer, key, pairs));
      if (checkpoint.account === account) return rememberedOf(checkpoint);
      throw new CheckpointError('the checkpoint is of another account');
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      throw validationFailed('The checkpoint cannot be compared.', [{ path: '/checkpoint', message: error.message }]);
    }
  }
}
