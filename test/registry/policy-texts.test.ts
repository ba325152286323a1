// What a front has read of the texts of policies: read once, forgotten when the account has them no longer, bounded.
import t from 'tap';
import { PolicyTexts } from '../../src/registry/cache/policy-texts.ts';

const text = (id: string, status = 'active') => JSON.stringify({ id, status, conditions: { tool: id } });

t.test('of texts that did not change the policies are the same objects', async (t) => {
  const texts = new PolicyTexts(100);
  const [a, b] = await texts.activeOf('acc', [text('a'), text('b'), text('c', 'inactive')]);
  const [again, changed, woken] = await texts.activeOf('acc', [text('a'), text('b2'), text('c')]);
  t.equal(again, a);
  t.not(changed, b);
  t.same([changed, woken], [JSON.parse(text('b2')), JSON.parse(text('c'))]);
  const [gone] = await texts.activeOf('acc', [text('b')]);
  t.not(gone, b, 'what was no longer there is forgotten');
  t.same(await texts.activeOf('acc', []), []);
});

t.test('an account that was read longest ago goes first, and the last one is kept whatever its size', async (t) => {
  const texts = new PolicyTexts(3);
  const one = await texts.activeOf('one', [text('a'), text('b')]);
  await texts.activeOf('two', [text('c')]);
  t.equal((await texts.activeOf('one', [text('a'), text('b')]))[0], one[0], 'within the bound all are kept');
  const four = ['d', 'e', 'f', 'g'].map((id) => text(id));
  const three = await texts.activeOf('three', four);
  t.equal((await texts.activeOf('three', four))[0], three[0]);
  t.not((await texts.activeOf('one', [text('a'), text('b')]))[0], one[0]);
});

t.test('a text that cannot be read is an error, and the next ones are read', async (t) => {
  const texts = new PolicyTexts(100);
  await t.rejects(texts.activeOf('acc', ['{']));
  t.equal((await texts.activeOf('acc', [text('a')])).length, 1);
});
