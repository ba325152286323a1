// A certificate authority of the tests and what it signs, for receivers by https (guarded client: option `ca`; a whole
// service: NODE_EXTRA_CA_CERTS, which takes a file). Made again in every process, elliptic, so that it costs some
// milliseconds.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { generate } from 'selfsigned';
import type { Test } from 'tap';
import { folderOf } from './folder.ts';

export type Certificate = { key: string; cert: string; ca: string };

const YEAR_MS = 365 * 24 * 60 * 60 * 1000;
const ELLIPTIC = { keyType: 'ec', algorithm: 'sha256' } as const;
let authority: Promise<{ key: string; cert: string }> | undefined;

/**
 * For these names and addresses; by default loopback in all its names. Valid since a day ago, unless it has expired.
 */
export async function certificate(
  names: readonly string[] = ['localhost', '127.0.0.1', '::1'],
  options: { hasExpired?: boolean } = {},
): Promise<Certificate> {
  authority ??= makeAuthority();
  const ca = await authority;
  const now = Date.now();
  const { private: key, cert } = await generate([{ name: 'commonName', value: names[0]! }], {
    ...ELLIPTIC,
    ca,
    notBeforeDate: new Date(now - YEAR_MS),
    notAfterDate: new Date(now + (options.hasExpired ? -1 : 1) * 60 * 60 * 1000),
    extensions: [
      { name: 'basicConstraints', cA: false },
      { name: 'keyUsage', digitalSignature: true },
      { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
      { name: 'subjectAltName', altNames: names.map(altName) },
    ],
  });
  return { key, cert, ca: ca.cert };
}

/** The authority as a file, for NODE_EXTRA_CA_CERTS. */
export async function authorityFile(t: Pick<Test, 'teardown'>): Promise<string> {
  const folder = folderOf(t);
  const file = path.join(folder, 'ca.pem');
  await writeFile(file, (await certificate()).ca);
  return file;
}

async function makeAuthority(): Promise<{ key: string; cert: string }> {
  const { private: key, cert } = await generate([{ name: 'commonName', value: 'Gatehouse test authority' }], {
    ...ELLIPTIC,
    notBeforeDate: new Date(Date.now() - 2 * YEAR_MS),
    notAfterDate: new Date(Date.now() + YEAR_MS),
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return { key, cert };
}

function altName(name: string): { type: 2; value: string } | { type: 7; ip: string } {
  return /^[0-9.]+$|:/.test(name) ? { type: 7, ip: name } : { type: 2, value: name };
}
