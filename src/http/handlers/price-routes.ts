// The price table: read it, replace it, read an earlier revision. It is of the whole account, so keys that are bound to
// an agent are refused.
import { getPriceRevision } from '../../../clickhouse/queries/price-revision.ts';
import { PriceTable, PriceTableChange, PriceTableRevision } from '../../../schemas/price-table.ts';
import { DECLARATION_BYTES_MAX } from '../../common/limits.ts';
import { ask, found, json, notFound, versioned } from '../answers/reply.ts';
import { jsonBody, type Route, route } from '../route.ts';

const REVISION = /^[1-9][0-9]{0,14}$/;

export const priceRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/prices',
    needs: 'read',
    bound: 'refused',
    operation: {
      id: 'getPrices',
      tag: 'Prices',
      summary: 'Get the price table',
      description: 'What a million tokens of each model cost, by which the cost of each new event is reckoned.',
      answers: { 200: { description: 'The table as it is now', schema: PriceTable, etag: true } },
    },
    async handle({ account }, { registry }) {
      return versioned(await registry.prices.get(account));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/prices',
    needs: 'configure',
    bound: 'refused',
    conditional: true,
    body: jsonBody(PriceTableChange, 'price table', { bytesMax: DECLARATION_BYTES_MAX }),
    operation: {
      id: 'replacePrices',
      tag: 'Prices',
      summary: 'Replace the price table',
      description:
        'All of it, as a new revision; where nothing differs there is none. In force within a second, for events that come then: what is stored keeps its cost.',
      answers: { 200: { description: 'The table as it is now', schema: PriceTable, etag: true } },
      bodyExample: {
        prices: [{ model: 'gpt-4o', input: '2.50 USD', output: '10.00 USD', cached_input: '1.25 USD' }],
      },
    },
    async handle({ account, body, revisions, actor }, { registry }) {
      return versioned(await registry.prices.replace(account, body, revisions, actor));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/prices/revisions/{revision}',
    needs: 'read',
    bound: 'refused',
    operation: {
      id: 'getPricesRevision',
      tag: 'Prices',
      summary: 'Get a revision of the price table',
      description:
        'As it was when events were priced that name it in `price_revision`. The first revision, which is empty, was not made by anyone. The audit log lists the others (`action=prices.updated`).',
      answers: { 200: { description: 'The table as it was then', schema: PriceTableRevision } },
      canBeIncomplete: true,
    },
    async handle({ account, params }, { barrier, clickhouse }) {
      if (!REVISION.test(params[0]!)) throw notFound('revision');
      const complete = await barrier.waitForJournal(account);
      const revision = await ask(() => getPriceRevision(clickhouse, account, Number(params[0])));
      return json(200, found(revision, 'revision', complete));
    },
  }),
];
