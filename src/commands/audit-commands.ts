// `gatehouse audit verify`, `checkpoint` and `rotate-key`: the audit chain recomputed, and its heads signed to be
// kept elsewhere. The checkpoint is taken off ClickHouse, once everything acknowledged is there: so it stays true even
// if Redis is lost. Exit status of `verify`: 0 valid, 1 anything else; what was found is printed as JSON either way.

import { existsSync, readFileSync } from 'node:fs';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { isoTime, parseTime } from '../../schemas/time.ts';
import {
  type Checkpoint,
  CheckpointError,
  readCheckpoint,
  readPublicKey,
  rememberedOf,
  signCheckpoint,
} from '../audit/checkpoint.ts';
import { flushedHeads } from '../audit/flushed-heads.ts';
import { isVouchedFor, rotateSigningKey, successions } from '../audit/key-successions.ts';
import { ownPublicKey, signingKey, signingKeyFile } from '../audit/signing-key.ts';
import type { Stores } from '../audit/sources.ts';
import { AuditVerifier } from '../audit/verifier.ts';
import { CHAIN_FLUSH_MS } from '../common/limits.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import { makeClickHouse, mostRetentionDays } from '../composition/clients.ts';
import type { Config } from '../process/config.ts';
import { keptNow } from '../registry/accounts/account-retention.ts';
import { Accounts } from '../registry/accounts/accounts.ts';
import { ReadBarrier } from '../streams/read-barrier.ts';
import { type Command, type Context, UsageError } from './context.ts';
import { withRedis } from './with-redis.ts';

/** The chain does not verify. */
class AuditInvalid extends UserFacingError {
  override name = 'AuditInvalid';
}

/** The wait for rows in flight: they are stored within seconds, and copied by the next flush. */
export const SETTLE_MS = 30_000;
const FLUSHED_MS = SETTLE_MS + 4 * CHAIN_FLUSH_MS;

export const auditCheckpoint: Command = async (context) => {
  await withStores(context, async (stores, config, account) => {
    const barrier = new ReadBarrier({ ...stores, waitMs: SETTLE_MS });
    const chains = await flushedHeads(stores, account.id, {
      settle: () => barrier.waitForAuditLog(account.id),
      timeoutMs: FLUSHED_MS,
    });
    const key = signingKey(config.dataDir);
    const checkpoint = signCheckpoint(
      { account: account.id, name: account.name, at: isoTime(Date.now()), chains },
      key,
    );
    context.print(JSON.stringify(checkpoint, null, 2));
  });
};

export const auditVerify: Command = async (context) => {
  await withStores(context, async (stores, config, account) => {
    const checkpoint = givenCheckpoint(context, config);
    if (checkpoint !== undefined && checkpoint.account !== account.id)
      throw new CheckpointError(`the checkpoint is of the account "${checkpoint.name}", not of "${account.name}"`);
    const barrier = new ReadBarrier({ ...stores, waitMs: SETTLE_MS });
    const settle = () => barrier.waitForAuditLog(account.id);
    const fromMs = givenTime(context.options['from']);
    await settle();
    const publicKey = context.options['public-key'];
    const verification = await verifierOf(stores, config).verify(account.id, {
      ...{ budgetMs: Number.POSITIVE_INFINITY, settle, fromMs },
      ...(checkpoint === undefined ? {} : { checkpoint: rememberedOf(checkpoint) }),
      trustedKey: publicKey === undefined ? undefined : trustedKey(publicKey, config),
    });
    context.print(JSON.stringify({ account: account.id, name: account.name, ...verification }, null, 2));
    if (!verification.valid || verification.truncated) throw new AuditInvalid(sentence(verification));
  });
};

/** It asks no store. A service that runs signs with the new key from the next checkpoint on. */
export const auditRotateKey: Command = async ({ config, print }) => {
  print(JSON.stringify(rotateSigningKey(config.dataDir, isoTime(Date.now())), null, 2));
};

/** The verifier by the retention of this command's settings. */
export function verifierOf(stores: Stores, config: Config): AuditVerifier {
  return new AuditVerifier({
    ...stores,
    retentionDays: mostRetentionDays(config),
    keptOf: keptNow(stores, config),
  });
}

function sentence({ first_invalid: first, faults }: AuditVerification): string {
  if (first === null) return 'the audit chain could not be verified whole: too much of it does not fit';
  const entry = first.entry_id === null ? '' : `, ${first.entry_id}`;
  const place = first.position === null ? first.chain : `entry ${first.position} of ${first.chain}`;
  return `the audit chain does not verify: ${place}${entry}, ${first.at}: ${first.kind}; ${faults} in all`;
}

function givenTime(text: string | boolean | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = parseTime(String(text));
  if (ms === null) throw new UsageError('--from takes an ISO 8601 date-time with an offset or Z');
  return ms;
}

function givenCheckpoint({ options }: Context, config: Config): Checkpoint | undefined {
  const { checkpoint: file, 'public-key': publicKey } = options;
  if (file === undefined) return undefined;
  const key = trustedKey(publicKey, config);
  const pairs = successions(config.dataDir);
  return readCheckpoint(readText(String(file)), (signer) => isVouchedFor(signer, key, pairs));
}

/** The key that is named, or else our own: never the one that the checkpoint brings along. */
function trustedKey(given: string | boolean | undefined, config: Config) {
  if (typeof given === 'string') return readPublicKey(existsSync(given) ? readText(given) : given);
  const own = ownPublicKey(config.dataDir);
  if (own !== undefined) return own;
  const file = signingKeyFile(config.dataDir);
  throw new UsageError(`name the public key that is to be trusted (--public-key); there is no ${file}`);
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new CheckpointError(`cannot read ${file} (${(error as NodeJS.ErrnoException).code ?? 'error'})`);
  }
}

export function withStores(
  context: Context,
  use: (stores: Stores, config: Config, account: { id: string; name: string }) => Promise<void>,
): Promise<void> {
  return withRedis(context, async (given, config) => {
    const name = String(context.options.account ?? 'default');
    const account = await new Accounts(given).byName(name);
    if (account === null) throw new UsageError(`there is no account "${name}"`);
    const clickhouse = makeClickHouse(config);
    try {
      await use({ ...given, clickhouse }, config, { id: account.id, name });
    } finally {
      await clickhouse.close();
    }
  });
}
