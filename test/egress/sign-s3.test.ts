// How requests to S3-compatible storage are signed: the example of Amazon's S3 API reference (PUT Object, and a list).
import t from 'tap';
import { signedForS3 } from '../../src/egress/sign-s3.ts';

const credentials = {
  keyId: 'AKIAIOSFODNN7EXAMPLE',
  secret: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
};
const request = {
  method: 'PUT',
  path: '/test%24file.text',
  headers: {
    host: 'examplebucket.s3.amazonaws.com',
    date: 'Fri, 24 May 2013 00:00:00 GMT',
    'x-amz-storage-class': 'REDUCED_REDUNDANCY',
  },
  body: Buffer.from('Welcome to Amazon S3.'),
  atMs: Date.parse('2013-05-24T00:00:00Z'),
} as const;

t.test("the signature of the reference's example", async (t) => {
  const headers = signedForS3(request, credentials);
  t.match(headers, {
    ...request.headers,
    'x-amz-date': '20130524T000000Z',
    'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
  });
  t.equal(
    headers['authorization'],
    'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  );
});

t.test("the signature of the reference's list", async (t) => {
  const headers = { host: 'examplebucket.s3.amazonaws.com' };
  const list = { method: 'GET', path: '/', query: 'max-keys=2&prefix=J', headers, body: Buffer.alloc(0) } as const;
  t.equal(
    signedForS3({ ...list, atMs: request.atMs }, credentials)['authorization'],
    'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  );
});

t.test('whatever is changed has another signature', async (t) => {
  const signature = (changed: object, by: object = {}) =>
    /Signature=(.*)/.exec(signedForS3({ ...request, ...changed }, { ...credentials, ...by })['authorization']!)![1];
  const all = [
    signature({}),
    signature({ path: '/other' }),
    signature({ query: 'x=1' }),
    signature({ body: Buffer.from('Welcome') }),
    signature({ headers: { ...request.headers, host: 'other.example.com' } }),
    signature({ atMs: request.atMs + 1_000 }),
    signature({}, { secret: 'other' }),
    signature({}, { region: 'eu-central-1' }),
  ];
  t.equal(new Set(all).size, all.length);
});
