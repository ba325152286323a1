// What is suggested while a policy is written, without a browser: fields and values of payloads whose text may end
// anywhere.
import t from 'tap';
import { dashboardModule } from '../support/dashboard-module.ts';

const { recordedFields } = await dashboardModule<{
  recordedFields(previews: readonly string[]): Map<string, string[]>;
}>('recorded-fields');

const PAYLOAD =
  '{"tool":"pay \\"x\\"","n":1.00,"list":[{"a":1},2],"arguments":{"amount":12345678901234567890,"to":{"name":"é"},"none":null},"a key":1,"ok":true}';

t.test('fields with their values, as they were sent; lists and odd keys are passed over', (t) => {
  t.same(
    [...recordedFields([PAYLOAD])],
    [
      ['payload.tool', ['"pay \\"x\\""']],
      ['payload.n', ['1.00']],
      ['payload.arguments.amount', ['12345678901234567890']],
      ['payload.arguments.to.name', ['"é"']],
      ['payload.arguments.none', ['null']],
      ['payload.ok', ['true']],
    ],
  );
  t.end();
});

t.test('of a text that ends anywhere only whole values are taken', (t) => {
  const whole = recordedFields([PAYLOAD]);
  for (let end = 0; end < PAYLOAD.length; end++)
    for (const [path, values] of recordedFields([PAYLOAD.slice(0, end)]))
      t.same(values, whole.get(path), `${path} of ${end} characters`);
  t.end();
});

t.test('what is frequent comes first, each value once, and no more than a menu holds', (t) => {
  const many = Array.from({ length: 300 }, (_, n) => `{"tool":"t${n % 50}","x${n}":1}`);
  const found = recordedFields([...many, '{"tool":"t1"}']);
  t.equal(found.size, 40);
  t.equal([...found.keys()][0], 'payload.tool');
  t.equal(found.get('payload.tool')!.length, 20);
  t.end();
});
