// `gatehouse prices pull | plan | apply`: the price table of an account, declared in files, over the API of a service
// (GATEHOUSE_URL, GATEHOUSE_API_KEY). `plan` shows what the files would change, `apply` changes it; `pull` writes what
// there is as a file. The files are the whole table: what they leave out is taken away.
// Invariant: what is applied is what was planned: it is sent with the revision against which it was. Files without any
// price, as a redirect that failed leaves them, are refused unless that is said (--allow-empty).
// Exit status: 0 done, or there is nothing to do; 1 refused or failed; 2 called wrongly; 3 `plan`: there is something
// to do; 4 `apply`: the prices were changed since.

import type { Price, PriceTable } from '../../schemas/price-table.ts';
import { differencesOf } from '../common/differences.ts';
import { exactJson } from '../common/exact-json.ts';
import { type FilePrice, readPriceFiles, textOfPrices } from '../common/policy-files.ts';
import { ask, type Options, refusalOf, ServiceRefused } from './ask-service.ts';
import { UsageError } from './context.ts';

const DONE = 0;
const THERE_IS_SOMETHING_TO_DO = 3;
const CHANGED_SINCE = 4;
const PATH = '/v1/prices';

export async function pricesPull(options: Options): Promise<number> {
  process.stdout.write(textOfPrices((await tableOf(options)).prices));
  return DONE;
}

export async function pricesPlan(options: Options, files: readonly string[]): Promise<number> {
  const declared = read(files);
  const table = await tableOf(options);
  const changes = changesOf(table, declared);
  show(changes, table);
  return changes.length === 0 ? DONE : THERE_IS_SOMETHING_TO_DO;
}

export async function pricesApply(options: Options, files: readonly string[]): Promise<number> {
  const declared = read(files);
  const table = await tableOf(options);
  const changes = changesOf(table, declared);
  show(changes, table);
  if (changes.length === 0) return DONE;
  if (declared.length === 0 && options['allow-empty'] !== true)
    throw new ServiceRefused('the files declare no price, and all would be taken away: --allow-empty allows it');
  const { revision = String(table.revision) } = options;
  const prices = declared.map(({ price }) => price);
  const answer = await ask(options, 'POST', PATH, { prices }, `"${revision}"`);
  if (answer.status === 412) {
    process.stderr.write('gatehouse: the prices were changed since the plan; nothing was changed\n');
    return CHANGED_SINCE;
  }
  if (answer.status !== 200) {
    const places = declared.map(({ place, price }) => ({ place, name: price['model'] }));
    throw refusalOf(answer, { list: 'prices', places });
  }
  process.stdout.write(`applied: revision ${(answer.body as PriceTable).revision}\n`);
  return DONE;
}

function read(files: readonly string[]): FilePrice[] {
  if (files.length === 0) throw new UsageError('FILE is missing');
  return readPriceFiles(files);
}

async function tableOf(options: Options): Promise<PriceTable> {
  return (await ask(options, 'GET', PATH)).body as PriceTable;
}

/** As lines: a price is known by its model and its first day. */
function changesOf({ prices }: PriceTable, declared: readonly FilePrice[]): string[] {
  const place = ({ model, from }: Pick<Price, 'model' | 'from'>) =>
    `${JSON.stringify(model)}${from === undefined ? '' : ` from ${from}`}`;
  const before = new Map(prices.map((price) => [place(price), price]));
  const after = new Map(declared.map(({ price }) => [place(price as Price), price]));
  const changed = [...after].flatMap(([name, price]) => {
    const old = before.get(name);
    if (old === undefined) return [`+ ${name} ${exactJson(price)}`];
    const differences = differencesOf(old, price).map(
      ({ path, before: was, after: is }) => `    ${path}: ${shown(was)} -> ${shown(is)}`,
    );
    return differences.length === 0 ? [] : [`~ ${name}`, ...differences];
  });
  const all = [...changed, ...[...before.keys()].filter((name) => !after.has(name)).map((name) => `- ${name}`)];
  const isMoved = exactJson([...before.keys()]) !== exactJson([...after.keys()]);
  return all.length === 0 && isMoved ? ['~ the order of the prices'] : all;
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : exactJson(value);
}

function show(changes: readonly string[], { revision, prices }: PriceTable): void {
  const state = changes.length === 0 ? 'nothing to do' : 'these are the changes';
  process.stdout.write(`${[...changes, `revision ${revision} has ${prices.length} prices: ${state}`].join('\n')}\n`);
}
