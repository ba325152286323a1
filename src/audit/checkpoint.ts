// Checkpoints: where an account's chains stood, signed, to be kept where no one who can write the tables can reach
// (`gatehouse audit checkpoint`, `gatehouse audit verify --checkpoint`).
// The signature is ed25519 over the checkpoint's JSON with its keys in a fixed order, without the signature.
// Invariant: what a checkpoint says is only believed after its signature was checked with a key that the caller trusts.
// Failure: CheckpointError, a sentence for the person at the terminal.

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto';
import { parseTime } from '../../schemas/time.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import type { Remembered } from './chain-cursor.ts';

export type ChainHead = { chain: string; entries: number; head: string };

export type Checkpoint = {
  version: 1;
  account: string;
  /** Name of the account, for people. */
  name: string;
  at: string;
  chains: ChainHead[];
  /** The public key that signed it; DER, base64. */
  public_key: string;
  /** Base64. */
  signature: string;
};

export class CheckpointError extends UserFacingError {
  override name = 'CheckpointError';
}

export function makeKeyPem(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

export function readPrivateKey(pem: string, from: string): KeyObject {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // Said below.
  }
  throw new CheckpointError(`${from} does not hold an ed25519 private key (PEM)`);
}

/** DER in base64, as checkpoints show it, or PEM. */
export function readPublicKey(text: string): KeyObject {
  try {
    const key = text.includes('-----BEGIN')
      ? createPublicKey(text)
      : createPublicKey({ key: Buffer.from(text.trim(), 'base64'), format: 'der', type: 'spki' });
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // Said below.
  }
  throw new CheckpointError('the public key is not an ed25519 key in PEM or base64');
}

export function publicText(key: KeyObject): string {
  const publicKey = key.type === 'private' ? createPublicKey(key) : key;
  return publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
}

export function signCheckpoint(
  { account, name, at, chains }: Pick<Checkpoint, 'account' | 'name' | 'at' | 'chains'>,
  key: KeyObject,
): Checkpoint {
  const unsigned = { version: 1 as const, account, name, at, chains, public_key: publicText(key) };
  return { ...unsigned, signature: sign(null, signedBytes(unsigned), key).toString('base64') };
}

/** Reads a checkpoint that was signed with a key that `isTrusted`, given as checkpoints show it. */
export function readCheckpoint(text: string, isTrusted: (publicKey: string) => boolean): Checkpoint {
  const checkpoint = parse(text);
  if (!isTrusted(checkpoint.public_key))
    throw new CheckpointError('the checkpoint was signed with another key than the one that is trusted here');
  const key = readPublicKey(checkpoint.public_key);
  if (!verify(null, signedBytes(checkpoint), key, Buffer.from(checkpoint.signature, 'base64')))
    throw new CheckpointError('the signature of the checkpoint is not right: it was changed after it had been made');
  return checkpoint;
}

export function rememberedOf({ chains, at }: Checkpoint): Map<string, Remembered> {
  const atMs = parseTime(at) ?? 0;
  return new Map(
    chains.map(({ chain, entries, head }) => [chain, { n: entries, hash: Buffer.from(head, 'hex'), atMs }]),
  );
}

function signedBytes({ version, account, name, at, chains, public_key }: Omit<Checkpoint, 'signature'>): Buffer {
  const heads = chains.map(({ chain, entries, head }) => ({ chain, entries, head }));
  return Buffer.from(
    `gatehouse-checkpoint\n${JSON.stringify({ version, account, name, at, chains: heads, public_key })}`,
  );
}

function parse(text: string): Checkpoint {
  let value: Partial<Checkpoint> | null = null;
  try {
    value = JSON.parse(text) as Partial<Checkpoint> | null;
  } catch {
    // Said below.
  }
  const texts = [value?.account, value?.name, value?.at, value?.public_key, value?.signature];
  const isSound =
    value?.version === 1 &&
    texts.every((one) => typeof one === 'string') &&
    Array.isArray(value.chains) &&
    value.chains.every(
      ({ chain, entries, head }) =>
        typeof chain === 'string' && Number.isSafeInteger(entries) && /^[0-9a-f]{64}$/.test(head),
    );
  if (!isSound) throw new CheckpointError('this is not a checkpoint of the audit chain');
  return value as Checkpoint;
}
