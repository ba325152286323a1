// Signing keys that follow one another: a checkpoint verifies by any key of the line, and by no key that only claims to
// be of it.
import { generateKeyPairSync, sign } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { publicText, readCheckpoint, readPublicKey, signCheckpoint } from '../../src/audit/checkpoint.ts';
import { isVouchedFor, rotateSigningKey, type Succession, successions } from '../../src/audit/key-successions.ts';
import { ownPublicKey, signingKey, signingKeyFile } from '../../src/audit/signing-key.ts';
import { folderOf } from '../support/folder.ts';

const AT = '2026-11-29T10:00:00.000Z';
const FILE = 'audit-key-successions.json';

const checkpointBy = (folder: string) =>
  JSON.stringify(signCheckpoint({ account: 'acc_1', name: 'a', at: AT, chains: [] }, signingKey(folder)));
const reads = (text: string, trusted: string, pairs: readonly Succession[]) =>
  readCheckpoint(text, (signer) => isVouchedFor(signer, readPublicKey(trusted), pairs));
const REFUSED = { name: 'CheckpointError', message: /signed with another key/ };

t.test('checkpoints of all keys of a line verify by each of them', async (t) => {
  const folder = folderOf(t);
  t.throws(() => rotateSigningKey(folder, AT), { message: /^there is no .*audit-signing-key\.pem to be replaced/ });
  const texts = [checkpointBy(folder)];
  const keys = [publicText(signingKey(folder))];
  for (let times = 0; times < 3; times++) {
    const { former, successor } = rotateSigningKey(folder, AT);
    t.equal(former, keys.at(-1));
    t.equal(publicText(ownPublicKey(folder)!), successor, 'it signs from now on');
    keys.push(successor);
    texts.push(checkpointBy(folder));
  }
  t.equal(new Set(keys).size, 4);
  const pairs = successions(folder);
  for (const key of keys) for (const text of texts) t.match(reads(text, key, pairs), { account: 'acc_1' });
  t.throws(() => reads(texts[0]!, keys[3]!, pairs.slice(1)), REFUSED, 'where a pair is missing the line ends');
  t.same(readdirSync(folder).sort(), [FILE, 'audit-signing-key.pem'], 'the old keys are gone');
  t.equal(statSync(signingKeyFile(folder)).mode & 0o777, 0o600);
});

t.test('a key that only says that it is of the line is not', async (t) => {
  const [folder, stranger] = [folderOf(t), folderOf(t)];
  const own = publicText(signingKey(folder));
  const theirs = signingKey(stranger);
  const forged = checkpointBy(stranger);
  const pairOf = (former: string, successor: string, first = theirs, second = theirs): Succession => {
    const pair = { former, successor, at: AT };
    const signed = (key: typeof theirs) =>
      sign(null, Buffer.from(`gatehouse-key-succession\n${JSON.stringify(pair)}`), key).toString('base64');
    return { ...pair, signature_of_former: signed(first), signature_of_successor: signed(second) };
  };
  const name = publicText(theirs);
  t.throws(() => reads(forged, own, []), REFUSED);
  t.throws(() => reads(forged, own, [pairOf(name, own)]), REFUSED, 'as one before ours');
  t.throws(() => reads(forged, own, [pairOf(own, name)]), REFUSED, 'as one behind it');
  const pair = pairOf(own, name, signingKey(folder));
  t.match(reads(forged, own, [pair]), { account: 'acc_1' }, 'but where ours has signed it');
  t.throws(() => reads(forged, own, [{ ...pair, at: '2027-01-01T00:00:00.000Z' }]), REFUSED, 'what was signed alone');
  const other = generateKeyPairSync('ed25519').publicKey;
  t.throws(() => reads(forged, own, [{ ...pair, former: publicText(other) }]), REFUSED);
  t.throws(() => reads(forged, own, [{} as Succession, null as unknown as Succession]), REFUSED);
});

t.test('ended between its steps a rotation leaves the old key, which can be rotated again', async (t) => {
  const folder = folderOf(t);
  const text = checkpointBy(folder);
  const old = readFileSync(signingKeyFile(folder), 'utf8');
  rotateSigningKey(folder, AT);
  writeFileSync(signingKeyFile(folder), old, { mode: 0o600 }); // as if it had ended behind the first file
  t.match(reads(text, publicText(ownPublicKey(folder)!), successions(folder)), { account: 'acc_1' });
  const { successor } = rotateSigningKey(folder, AT);
  t.match(reads(text, successor, successions(folder)), { account: 'acc_1' });
  writeFileSync(path.join(folder, FILE), '{');
  t.throws(() => successions(folder), { name: 'CheckpointError', message: /cannot be read as successions/ });
  t.ok(existsSync(signingKeyFile(folder)));
});
