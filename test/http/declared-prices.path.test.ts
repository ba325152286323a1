// Price tables that are declared in files (`gatehouse prices`), against the whole service: planned, applied as planned,
// pulled as they are, refused with their places; and the exit statuses by which a pipeline goes. The ready file holds
// together.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { runCli } from '../support/service.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const key = await keyOfNewAccount(service, 'declared prices');
const api = new Api(t, { url: service.url, key });
const folder = t.testdir({});
const env = { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key };

function fileOf(name: string, text: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
}

async function prices(...args: string[]): Promise<{ status: number; out: string; err: string }> {
  const ran = await runCli(['prices', ...args], env);
  return { status: ran.code ?? -1, out: ran.stdout, err: ran.stderr.replaceAll(`${folder}/`, '') };
}

t.test('planned, applied, pulled, and nothing left to do', async (t) => {
  const file = fileOf(
    'a.yaml',
    '- {model: m-1, input: 2.50 USD, output: 10 USD}\n- {model: m-2, input: 1 USD, output: 1 USD}\n',
  );
  const plan = await prices('plan', file);
  t.match(plan, { status: 3, out: /^\+ "m-1" \{.*\n\+ "m-2" .*\nrevision 1 has 0 prices: these are the changes\n$/ });
  t.equal((await api.get('/v1/prices')).json.revision, 1, 'a plan changes nothing');
  t.match(await prices('apply', file), { status: 0, out: /applied: revision 2\n$/ });
  t.match(await prices('apply', file), { status: 0, out: /^revision 2 has 2 prices: nothing to do\n$/ });
  const pulled = await prices('pull');
  t.match(pulled, { status: 0, out: /^- model: m-1\n/ });
  t.match(await prices('plan', fileOf('pulled.yaml', pulled.out)), { status: 0 }, 'it is the table');

  const changed = fileOf(
    'b.yaml',
    '- {model: m-1, input: 3 USD, output: 10 USD}\n---\n- {model: m-3, from: 2026-01-01, input: 1 USD, output: 1 USD}\n',
  );
  const next = await prices('plan', changed);
  t.equal(next.status, 3);
  t.match(next.out, /^~ "m-1"\n {4}\/input: "2.50 USD" -> "3 USD"\n\+ "m-3" from 2026-01-01 .*\n- "m-2"\nrevision 2/);
  t.match(await prices('apply', changed, '--revision', '1'), { status: 4, err: /were changed since the plan/ });
  t.match(await prices('apply', changed, '--revision', '2'), { status: 0, out: /applied: revision 3\n$/ });
  const order = (await api.get('/v1/prices')).json.prices.reverse();
  t.match(await prices('plan', fileOf('order.json', JSON.stringify(order))), { status: 3, out: /^~ the order/ });
});

t.test('what cannot be applied is refused with its place', async (t) => {
  const bad = fileOf(
    'bad.yaml',
    '- {model: m-1, input: 1 USD, output: 1 USD}\n- {model: m-2, input: 1 EUR, output: 1 USD}\n',
  );
  t.match(await prices('apply', bad), { status: 1, err: /bad\.yaml:2: "m-2" \/input: must be in USD/ });
  t.match(await prices('plan', fileOf('none.yaml', '- {input: 1 USD}\n')), {
    ...{ status: 1, err: /none\.yaml:1: a price with a `model` must stand here/ },
  });
  const empty = fileOf('empty.yaml', '# nothing\n');
  t.match(await prices('apply', empty), { status: 1, err: /--allow-empty/ });
  t.equal((await api.get('/v1/prices')).json.prices.length, 2);
  t.match(await prices('apply', empty, '--allow-empty'), { status: 0 });
  t.equal((await api.get('/v1/prices')).json.prices.length, 0);
  t.match(await prices('plan'), { status: 2, err: /FILE is missing/ });
});

t.test('the ready file is a table, in dollars, with its date', async (t) => {
  const file = assetPath('prices/list-prices.yaml');
  t.match(readFileSync(file, 'utf8'), /^# List prices .* published in \w+ 20\d\d\. They are\n# list prices/);
  t.match(await prices('apply', file), { status: 0, out: /applied/ });
  t.match((await api.get('/v1/prices')).json, { currency: 'USD' });
});
