// Other signing keys than the first (`gatehouse audit rotate-key`): the old key and the new one vouch for each other,
// in a file of the data folder beside the key (signing-key.ts). So a checkpoint verifies by any key of the line,
// whichever of them is trusted: an old checkpoint by the new key, a new one by the old key that an auditor has kept.
// Invariant: a pair that lacks either signature connects nothing. With one alone a person who can write the file
// could put a key of theirs before ours, or behind it.
// Killed between its steps a rotation leaves a pair whose new key is nowhere; the old one stays, and is rotated again.
// Failure: CheckpointError, with the file's name.
import { type KeyObject, randomUUID, sign, verify } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CheckpointError, makeKeyPem, publicText, readPrivateKey, readPublicKey } from './checkpoint.ts';
import { signingKeyFile } from './signing-key.ts';

/** Keys are DER in base64, signatures ed25519 in base64 over the first three fields. */
export type Succession = {
  former: string;
  successor: string;
  at: string;
  signature_of_former: string;
  signature_of_successor: string;
};

const FILE = 'audit-key-successions.json';

/** Puts a new key in the place of the old one, which is gone afterwards. Answers what there is to be kept of it. */
export function rotateSigningKey(dataDir: string, at: string): Succession {
  const keyFile = signingKeyFile(dataDir);
  if (!existsSync(keyFile))
    throw new CheckpointError(`there is no ${keyFile} to be replaced; the first checkpoint makes it`);
  const file = path.resolve(dataDir, FILE);
  try {
    const former = readPrivateKey(readFileSync(keyFile, 'utf8'), keyFile);
    const pem = makeKeyPem();
    const made = succession(former, readPrivateKey(pem, keyFile), at);
    replace(file, JSON.stringify([...successions(dataDir), made], null, 2));
    replace(keyFile, pem);
    return made;
  } catch (error) {
    if (error instanceof CheckpointError) throw error;
    throw new CheckpointError(`cannot write ${file} (${(error as NodeJS.ErrnoException).code ?? 'error'})`);
  }
}

/** Reads those of this data folder, oldest first. */
export function successions(dataDir: string): Succession[] {
  const file = path.resolve(dataDir, FILE);
  if (!existsSync(file)) return [];
  try {
    const all = JSON.parse(readFileSync(file, 'utf8')) as Succession[];
    if (Array.isArray(all)) return all;
  } catch {
    // Said below.
  }
  throw new CheckpointError(`${file} cannot be read as successions of signing keys`);
}

/** Is it the key that is trusted, or one that is connected with it? */
export function isVouchedFor(key: string, trusted: KeyObject, pairs: readonly Succession[]): boolean {
  const vouched = new Set([publicText(trusted)]);
  const open = pairs.filter(isSound);
  for (let found = true; found && !vouched.has(key); ) {
    found = false;
    for (const { former, successor } of open) {
      if (vouched.has(former) === vouched.has(successor)) continue;
      vouched.add(former).add(successor);
      found = true;
    }
  }
  return vouched.has(key);
}

function succession(old: KeyObject, fresh: KeyObject, at: string): Succession {
  const pair = { former: publicText(old), successor: publicText(fresh), at };
  const signed = (key: KeyObject) => sign(null, bytesOf(pair), key).toString('base64');
  return { ...pair, signature_of_former: signed(old), signature_of_successor: signed(fresh) };
}

function isSound(pair: Succession): boolean {
  try {
    const { former, successor, signature_of_former: first, signature_of_successor: second } = pair;
    const is = (key: string, signature: string) =>
      verify(null, bytesOf(pair), readPublicKey(key), Buffer.from(signature, 'base64'));
    return is(former, first) && is(successor, second);
  } catch {
    return false;
  }
}

function bytesOf({ former, successor, at }: Pick<Succession, 'former' | 'successor' | 'at'>): Buffer {
  return Buffer.from(`gatehouse-key-succession\n${JSON.stringify({ former, successor, at })}`);
}

/** Readers see the old content or the new. */
function replace(file: string, content: string): void {
  const draft = `${file}.${randomUUID()}`;
  writeFileSync(draft, content, { mode: 0o600, flush: true });
  renameSync(draft, file);
}
