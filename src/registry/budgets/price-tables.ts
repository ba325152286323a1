// The price table of an account (schemas/price-table.ts): one record, replaced whole, at a revision that each change
// raises. Each revision is kept, since the rows of events name the one by which their cost was reckoned.
// Invariant: an account has one currency for good: costs of two could not be added up. A table that does not hold
// together is refused with the place of each mistake; one in which nothing differs makes no revision.
// Failure: Redis away is `unavailable`; nothing is half made.
import type { JournalEntry } from '../../../schemas/journal.ts';
import type { Price, PriceTable, PriceTableChange } from '../../../schemas/price-table.ts';
import { isoTime } from '../../../schemas/time.ts';
import { exactJson } from '../../common/exact-json.ts';
import { currencyOf, type PriceTableRecord, priceMistakes } from '../../common/prices/price-list.ts';
import { validationFailed } from '../../common/validation.ts';
import type { Actor } from '../accounts/principal.ts';
import { auditLog } from '../audit.ts';
import { AGAIN, absent, answering, commit, inRounds, is, nowOf, type RegistryStore } from '../commit.ts';
import { keepToRevisions } from '../named-records.ts';

/** The price table of a new account. */
const NO_PRICES: PriceTable = { revision: 1, currency: null, prices: [], updated_at: null };
/** So many models with changed prices are named in the audit log. */
const MODELS_NAMED_MAX = 50;
const MISTAKES_TOLD_MAX = 50;

export class PriceTables {
  readonly #store: RegistryStore;

  constructor(store: RegistryStore) {
    this.#store = store;
  }

  get(account: string): Promise<PriceTable> {
    return answering(async () => tableOf(await this.#text(account)));
  }

  /**
   * `revisions`: only while it is at one of these. Throws ServiceError validation_failed, revision_conflict,
   * unavailable.
   */
  replace(
    account: string,
    { prices }: PriceTableChange,
    revisions: readonly number[] | undefined,
    actor: Actor,
  ): Promise<PriceTable> {
    return inRounds(async () => {
      const text = await this.#text(account);
      const before = tableOf(text);
      keepToRevisions(revisions, before);
      const mistakes = priceMistakes(prices, before.currency);
      if (mistakes.length > 0)
        throw validationFailed('The prices cannot be kept.', mistakes.slice(0, MISTAKES_TOLD_MAX));
      if (exactJson(prices) === exactJson(before.prices)) return before;
      const at = nowOf(this.#store);
      const currency = before.currency ?? currencyOf(prices);
      const after = { revision: before.revision + 1, currency, prices, updated_at: isoTime(at) };
      const details = { revision: after.revision, prices: prices.length, ...namedChanges(before.prices, prices) };
      const key = this.#store.keys.prices(account);
      const { refused } = await commit(this.#store, {
        ...{ account, at },
        guards: [text === null ? absent('record', ['get', key]) : is('record', ['get', key], text)],
        writes: [['set', key, exactJson(after)]],
        changes: [{ kind: 'prices', id: account, record: after }],
        rows: [priceRevisionRow(after, actor)],
        audit: [auditLog({ action: 'prices.updated', type: 'prices', id: account, details }, actor, at)],
      });
      return refused === undefined ? after : AGAIN;
    });
  }

  #text(account: string): Promise<string | null> {
    return this.#store.redis.get(this.#store.keys.prices(account));
  }
}

function tableOf(text: string | null): PriceTable {
  return text === null ? NO_PRICES : (JSON.parse(text) as PriceTable);
}

/** For the table `price_revisions` of ClickHouse. */
export function priceRevisionRow(table: PriceTableRecord, { actor }: Actor): NonNullable<JournalEntry['rows']>[number] {
  const { revision: id, updated_at: created_at } = table;
  return { table: 'price_revisions', row: { id, actor, created_at, record: exactJson(table) } };
}

/** Models, the first ones, by what became of their prices. */
function namedChanges(before: readonly Price[], after: readonly Price[]) {
  const place = ({ model, from = '' }: Price) => `${model} ${from}`;
  const [old, fresh] = [before, after].map(
    (prices) => new Map(prices.map((price) => [place(price), exactJson(price)])),
  );
  const models = (prices: readonly Price[], differs: (price: Price) => boolean) =>
    [...new Set(prices.filter(differs).map(({ model }) => model))].slice(0, MODELS_NAMED_MAX);
  return {
    added: models(after, (price) => !old!.has(place(price))),
    changed: models(after, (price) => old!.has(place(price)) && old!.get(place(price)) !== exactJson(price)),
    removed: models(before, (price) => !fresh!.has(place(price))),
  };
}
