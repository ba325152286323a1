// The key that checkpoints are signed with: a file of the data folder, made on first use, readable by its owner alone.
// Invariant: of two first uses at once one key stays. Failure: CheckpointError, with the file's name.
import { type KeyObject, randomUUID } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CheckpointError, makeKeyPem, publicText, readPrivateKey, readPublicKey } from './checkpoint.ts';

const KEY_FILE = 'audit-signing-key.pem';

export function signingKeyFile(dataDir: string): string {
  return path.resolve(dataDir, KEY_FILE);
}

export function signingKey(dataDir: string): KeyObject {
  const file = signingKeyFile(dataDir);
  try {
    if (!existsSync(file)) make(file);
    return readPrivateKey(readFileSync(file, 'utf8'), file);
  } catch (error) {
    if (error instanceof CheckpointError) throw error;
    throw new CheckpointError(`cannot keep or read ${file} (${(error as NodeJS.ErrnoException).code ?? 'error'})`);
  }
}

/** undefined: there is none yet. */
export function ownPublicKey(dataDir: string): KeyObject | undefined {
  return existsSync(signingKeyFile(dataDir)) ? readPublicKey(publicText(signingKey(dataDir))) : undefined;
}

function make(file: string): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomUUID()}`;
  writeFileSync(draft, makeKeyPem(), { mode: 0o600 });
  try {
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft);
  }
}
