// Signs a request to S3-compatible storage, for outgoing feeds and backups: AWS Signature Version 4 in headers, the
// SHA-256 of the body among what is signed. The source: "Signature Calculations for the Authorization Header:
// Transferring Payload in a Single Chunk" of Amazon's S3 API reference; its examples: test/egress/sign-s3.test.ts.
// Invariant: what is signed is what is sent: path and query are taken as they stand, so they must be percent-encoded
// already, and the parts of the query in the order of their names.
import { createHash, createHmac } from 'node:crypto';

export type S3Credentials = { keyId: string; secret: string; region: string };
/** `headers`: in lower case, `host` among them. `path`: percent-encoded. `atMs`: by our clock; it may be 15 min off. */
type S3Request = {
  method: 'GET' | 'PUT';
  path: string;
  /** Without the `?`. */
  query?: string;
  headers: Readonly<Record<string, string>>;
  body: Buffer;
  atMs: number;
};

const ALGORITHM = 'AWS4-HMAC-SHA256';

/** All headers, those that sign among them. */
export function signedForS3(
  { method, path, query = '', headers: given, body, atMs }: S3Request,
  { keyId, secret, region }: S3Credentials,
): Record<string, string> {
  const time = new Date(atMs).toISOString().replace(/[-:]|\.\d+/g, '');
  const day = time.slice(0, 8);
  const bodySha256 = sha256Of(body);
  const headers: Record<string, string> = { ...given, 'x-amz-content-sha256': bodySha256, 'x-amz-date': time };
  const names = Object.keys(headers).sort();
  const lines = names.map((name) => `${name}:${headers[name]!.trim()}\n`).join('');
  const request = [method, path, query, lines, names.join(';'), bodySha256].join('\n');
  const scope = `${day}/${region}/s3/aws4_request`;
  const toSign = [ALGORITHM, time, scope, sha256Of(request)].join('\n');
  const key = [day, region, 's3', 'aws4_request'].reduce<string | Buffer>(hmacOf, `AWS4${secret}`);
  const signature = hmacOf(key, toSign).toString('hex');
  const authorization = `${ALGORITHM} Credential=${keyId}/${scope},SignedHeaders=${names.join(';')},Signature=${signature}`;
  return { ...headers, authorization };
}

function sha256Of(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmacOf(key: string | Buffer, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest();
}
