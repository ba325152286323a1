// Whose signature it is, against the library of Standard Webhooks: right ones of either secret, and all that is not.
import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { isSignedBy, TOLERANCE_MS } from '../../src/http/admission/webhook-signature.ts';

const NOW = Date.UTC(2026, 10, 20, 12, 0, 0);
const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;
const [first, second, other] = [newSecret(), newSecret(), newSecret()];
const body = '{"type":"prompt","messages":["é \\u00e9 1.0"]}';

function head(secret: string, { id = 'msg_1', at = NOW, of = body } = {}) {
  const signature = new Webhook(secret).sign(id, new Date(at), of);
  return { id, timestamp: String(Math.floor(at / 1000)), signature };
}
const isSigned = (secrets: string[], of: ReturnType<typeof head>, sent = body) =>
  isSignedBy(secrets, of, Buffer.from(sent), NOW);

t.test('what one of the secrets has signed is signed', (t) => {
  t.ok(isSigned([first], head(first)));
  t.ok(isSigned([first, second], head(first)), 'during a rotation');
  t.ok(isSigned([first, second], head(second)));
  const both = `v1a,AAAA ${head(other).signature} ${head(first).signature}`;
  t.ok(isSigned([first], { ...head(first), signature: both }), 'one of several will do');
  for (const away of [-TOLERANCE_MS, TOLERANCE_MS]) t.ok(isSigned([first], head(first, { at: NOW + away })));
  t.end();
});

t.test('all else is not', (t) => {
  const wrong: [string, boolean][] = [
    ['by no secret', isSigned([], head(first))],
    ['by another', isSigned([first], head(other))],
    ['of another body', isSigned([first], head(first), `${body} `)],
    ['of another id', isSigned([first], { ...head(first), id: 'msg_2' })],
    ['without an id', isSigned([first], head(first, { id: '' }))],
    ['of another time', isSigned([first], { ...head(first), timestamp: String(NOW / 1000 - 1) })],
    ['too old', isSigned([first], head(first, { at: NOW - TOLERANCE_MS - 1_000 }))],
    ['from the future', isSigned([first], head(first, { at: NOW + TOLERANCE_MS + 1_000 }))],
    ['at no time', isSigned([first], { ...head(first), timestamp: '1e3' })],
    ['cut', isSigned([first], { ...head(first), signature: head(first).signature.slice(0, -5) })],
    ['of another version', isSigned([first], { ...head(first), signature: head(first).signature.replace('v1', 'v2') })],
    [
      'behind too many',
      isSigned([first], { ...head(first), signature: `${'v1,AAAA '.repeat(9)}${head(first).signature}` }),
    ],
    ['empty', isSigned([first], { ...head(first), signature: '' })],
  ];
  for (const [what, isOne] of wrong) t.notOk(isOne, what);
  t.end();
});
