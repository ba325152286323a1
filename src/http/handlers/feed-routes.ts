// The feed (docs/feed.md): GET /v1/feed, a page behind a place, which may be waited for, and GET /v1/feed/stream, the
// same as server-sent events. Both read src/audit/feed.ts; a cursor of one is good for the other.
// Invariant: the cursor that goes out is behind what went out with it, so who keeps it after dealing with that loses
// nothing. Nothing is read ahead of a client that takes nothing. In a drain a wait is answered at once and a stream
// ends soundly; both go on at another front.
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import { FEED_TOPICS, type FeedTopic, type PayloadMode } from '../../../schemas/closed-sets.ts';
import { FeedPage as FeedPageSchema, type FeedPlace } from '../../../schemas/feed.ts';
import { FeedAhead, type FeedItem, type FeedPage, type FeedQuestion } from '../../audit/feed.ts';
import { onOneLine } from '../../common/exact-json.ts';
import { APPROVAL_ANSWERED_SECONDS, FEED_EVERY_MS, LIVE_HEARTBEAT_MS } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { keptOf } from '../../registry/accounts/account-retention.ts';
import type { BodyParts } from '../answers/body-parts.ts';
import { badFeedCursor, feedCursor, readFeedCursor } from '../answers/feed-cursor.ts';
import { ask } from '../answers/reply.ts';
import { flag, integer, payloadMode, type QueryOf, text } from '../reading/query.ts';
import { type Call, type Parts, type Reply, type Route, route } from '../route.ts';

const CURSOR_CHARACTERS_MAX = 4_000;
/** The questions of a page cost nearly as much for 500 entries as for 2,000; PAGE_BYTES_MAX bounds what they bring. */
const LIMIT = { minimum: 1, maximum: 5_000, default: 1_000 };

const parameters = {
  topics: text(
    'Topics, separated by commas: `audit_log`, `events`, `anomalies`, `approvals`, `deliveries`. Left out: those of `after`, else the audit log',
  ),
  after: text('The `cursor` of the page before. Left out: from now on', CURSOR_CHARACTERS_MAX),
  limit: integer('Entries of a page, about: an event that was blocked has several', LIMIT),
  submissions: flag('`false` leaves `event.submitted` out of the audit log', true),
  payload: payloadMode(),
};
const pageParameters = {
  ...parameters,
  wait: integer('Seconds to wait if there is nothing yet', { minimum: 0, maximum: 60, default: 0 }),
};

type FeedRequest = { question: FeedQuestion; place: FeedPlace | undefined };

export const feedRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/feed',
    needs: 'read',
    bound: 'refused',
    query: pageParameters,
    operation: {
      id: 'readFeed',
      tag: 'Feed',
      summary: 'Read what was committed behind a place',
      description:
        'Every row at least once, in the order in which it was committed; some seconds behind. A cursor is honoured for seven days. With `wait` the answer comes as soon as there is something, at the latest after so many seconds, or 45 where it is more; then without items: ask again.',
      answers: { 200: { description: 'What came, and the place behind it', schema: FeedPageSchema } },
      errors: ['unavailable'],
    },
    async handle(call, parts) {
      const waitMs = Math.min(call.query.wait, APPROVAL_ANSWERED_SECONDS) * 1000;
      if (waitMs === 0) return pageReply(call, parts, 0);
      call.client.longPollMs = waitMs;
      const release = parts.slots.streams.take(call.principal);
      try {
        return await pageReply(call, parts, waitMs);
      } finally {
        release();
      }
    },
  }),
  route({
    method: 'GET',
    path: '/v1/feed/stream',
    needs: 'read',
    bound: 'refused',
    query: parameters,
    operation: {
      id: 'followFeed',
      tag: 'Feed',
      summary: 'Follow what is committed',
      description:
        'The feed as server-sent events: `event` is the topic, `data` the row. The last row of a page has its cursor as `id`, which `Last-Event-ID` or `after` takes up again, for seven days. A new `id` alone comes every 15 s.',
      answers: {
        200: {
          description: 'What is committed, until the reader leaves',
          contentType: 'text/event-stream',
          schema: Type.String(),
          example:
            'event: audit_log\ndata: {"id":"log_01jd5x0f6w3q8z5n7r2k9v4t1m","action":"policy.created"}\nid: 1.9Yd2…\n\n',
        },
      },
      errors: ['unavailable'],
    },
    async handle(call, parts) {
      const asked = await askedOf(call, parts, call.lastEventId || call.query.after);
      const release = parts.slots.streams.take(call.principal);
      return {
        status: 200,
        contentType: 'text/event-stream',
        onSent: release,
        parts: (body) => follow(body, parts, asked),
      };
    },
  }),
];

async function pageReply(
  call: Call<unknown, QueryOf<typeof pageParameters>>,
  parts: Parts,
  waitMs: number,
): Promise<Reply> {
  const untilMs = performance.now() + waitMs;
  const { question, place } = await askedOf(call, parts, call.query.after);
  let page = await nextPage(parts, question, place);
  while (page.items.length === 0 && !parts.leaving.aborted && performance.now() + FEED_EVERY_MS <= untilMs) {
    await sleep(FEED_EVERY_MS);
    if (call.client.signal.aborted) break;
    page = await nextPage(parts, question, page.place);
  }
  const items = page.items.map(({ topic, text: data }) => `{"topic":"${topic}","data":${data}}`);
  const rest = JSON.stringify({ cursor: cursorOf(question, page.place), has_more: page.hasMore });
  return { status: 200, body: `{"items":[${items.join(',')}],${rest.slice(1)}` };
}

/** Resolves when the reader may read no more or the process ends; rejects when it has left or is too slow. */
async function follow(body: BodyParts, parts: Parts, { question, place }: FeedRequest): Promise<void> {
  const { signal } = body;
  try {
    let page = await nextPage(parts, question, place);
    // Taken up again, nothing is behind the reader that it has not got: its id stays.
    await body.put(`retry: 1000\n\nevent: ready\ndata: {}\n${place === undefined ? idOf(question, page) : '\n'}`);
    for (let heartbeatMs = performance.now() + LIVE_HEARTBEAT_MS; ; ) {
      const { items } = page;
      const isQuiet = items.length === 0 && performance.now() > heartbeatMs;
      await body.put(isQuiet ? idOf(question, page) : eventsText(items, idOf(question, page)));
      if (isQuiet || items.length > 0) heartbeatMs = performance.now() + LIVE_HEARTBEAT_MS;
      if (!page.hasMore) await sleep(FEED_EVERY_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
      page = await nextPage(parts, question, page.place);
    }
  } catch (error) {
    // A sound end: the reader comes back, and gets the error then.
    if (signal.reason !== 'draining' && signal.reason !== 'not_allowed') throw error;
  }
}

function eventsText(items: readonly FeedItem[], id: string): string {
  const last = items.length - 1;
  return items
    .map(({ topic, text: data }, i) => `event: ${topic}\ndata: ${onOneLine(data)}\n${i === last ? id : '\n'}`)
    .join('');
}

function idOf(question: FeedQuestion, { place }: FeedPage): string {
  return `id: ${cursorOf(question, place)}\n\n`;
}

/** Without a place: nothing, and the place behind all that is there. */
async function nextPage({ feed }: Parts, question: FeedQuestion, place: FeedPlace | undefined): Promise<FeedPage> {
  try {
    if (place === undefined) return { items: [], place: await ask(() => feed.begin(question)), hasMore: false };
    return await ask(() => feed.page(question, place));
  } catch (error) {
    if (!(error instanceof FeedAhead)) throw error;
    throw badFeedCursor(
      'is ahead of what is stored: the service was put back to an earlier state; begin again without it',
    );
  }
}

/** Throws ServiceError validation_failed. */
async function askedOf(
  { account, query }: Call<unknown, QueryOf<typeof parameters>>,
  { feed, registry, retention }: Parts,
  after: string | undefined,
): Promise<FeedRequest> {
  const { limit, submissions, payload } = query;
  const named = topicsOf(query.topics);
  const asked = { account, limit, submissions, payload: payload as PayloadMode };
  if (after === undefined) return { question: { ...asked, topics: named ?? ['audit_log'] }, place: undefined };
  const record = (await registry.accounts.get(account)) ?? {};
  const { wholeFromMs: keptFromMs } = keptOf(record, retention, Date.now());
  const { place, topics } = readFeedCursor(account, after, { chains: feed.chains, keptFromMs });
  if (named !== undefined && named.join() !== topics.join())
    throw badFeedCursor(`is of the topics ${topics.join(',')}; begin again without it`);
  return { question: { ...asked, topics }, place };
}

function topicsOf(asked: string | undefined): FeedTopic[] | undefined {
  if (asked === undefined) return undefined;
  const names = asked.split(',');
  if (!names.every((name) => (FEED_TOPICS as readonly string[]).includes(name)))
    throw validationFailed('The query string does not fit.', [
      { path: 'topics', message: `must be one or more of ${FEED_TOPICS.join(', ')}, separated by commas` },
    ]);
  return FEED_TOPICS.filter((topic) => names.includes(topic));
}

function cursorOf({ account, topics }: FeedQuestion, place: FeedPlace): string {
  return feedCursor(account, { place, topics: [...topics] });
}
