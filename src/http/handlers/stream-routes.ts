// GET /v1/stream: what comes in, as server-sent events (live.ts reads it; docs/dashboard.md says how it is followed).
// Each row has an id that encodes what was sent so far; a reader that comes back with the last one it has
// (`Last-Event-ID`, as browsers do by themselves) continues behind it, at whichever front.
// Invariant: a reader without the right to read gets nothing after LIVE_CHECK_MS. A reader that takes nothing holds
// LIVE_UNREAD_BYTES_MAX at most.
import { createHash } from 'node:crypto';
import Type from 'typebox';
import type { PayloadMode } from '../../../schemas/closed-sets.ts';
import { onOneLine } from '../../common/exact-json.ts';
import { LIVE_CHECK_MS, LIVE_HEARTBEAT_MS, LIVE_RESUME_MS_MAX, LIVE_UNREAD_BYTES_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import type { BodyParts } from '../answers/body-parts.ts';
import { type LivePosition, type LiveUpdate, type Question, TOPICS } from '../answers/live.ts';
import { ask } from '../answers/reply.ts';
import { payloadMode, type QueryOf, text } from '../reading/query.ts';
import { type Call, type Parts, type Route, route } from '../route.ts';
import { agentFilter, eventFilters, filterOf } from './event-filters.ts';

const { from: _from, to: _to, ...filters } = eventFilters;
const CURSOR_CHARACTERS_MAX = 500;

const parameters = {
  topics: {
    ...text('Topics to follow, separated by commas: `events`, `approvals`, `anomalies`, `deliveries`'),
    absent: undefined,
  },
  ...filters,
  ...agentFilter,
  payload: {
    ...payloadMode(),
    absent: 'none' as PayloadMode,
    schema: { type: 'string', enum: ['none', 'preview'], default: 'none' },
  },
  cursor: text(
    'Id of the last row that arrived, for programs; browsers send it as `Last-Event-ID`',
    CURSOR_CHARACTERS_MAX,
  ),
};

export const streamRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/stream',
    needs: 'read',
    bound: 'query',
    query: parameters,
    operation: {
      id: 'followLive',
      tag: 'Stream',
      summary: 'Follow what comes in',
      description:
        'Server-sent events, about a second behind. `ready` says that it begins; `events`, `approvals`, `anomalies` and `deliveries` are rows as the lists have them, an approval and a delivery again with each change; `skipped` says how many of a topic were not sent one by one; `reset` that a resume came too late, and the lists are to be read again. A comment comes every 15 s. The filters are those of the list of events; the other topics go by those that they have.',
      answers: {
        200: {
          description: 'What comes in, until the reader leaves',
          contentType: 'text/event-stream',
          schema: Type.String(),
          example: 'id: WzEs…\nevent: approvals\ndata: {"id":"apr_01jd5x0f6w3q8z5n7r2k9v4t1m","status":"pending"}\n\n',
        },
      },
      errors: ['unavailable'],
    },
    async handle(call, parts) {
      const question = questionOf(call);
      const digest = digestOf(question);
      const from = positionOf(call.lastEventId || call.query.cursor, digest);
      const release = parts.slots.streams.take(call.principal);
      return {
        status: 200,
        contentType: 'text/event-stream',
        onSent: release,
        parts: (body) => new Reader(body, digest).follow(parts, question, from),
      };
    },
  }),
];

function questionOf(call: Call<unknown, QueryOf<typeof parameters>>): Question {
  const { topics: asked, payload, agent_id: agentId } = call.query;
  const names = [...new Set((asked ?? '').split(',').filter((name) => name !== ''))];
  const unknown = names.find((name) => !(TOPICS as readonly string[]).includes(name));
  if (names.length === 0 || unknown !== undefined)
    throw validationFailed('The query string does not fit.', [
      { path: 'topics', message: `must be one or more of ${TOPICS.join(', ')}, separated by commas` },
    ]);
  if (payload === 'full')
    throw validationFailed('The query string does not fit.', [
      { path: 'payload', message: 'must be one of none, preview' },
    ]);
  const topics = TOPICS.filter((topic) => names.includes(topic));
  return {
    account: call.account,
    topics,
    filter: { ...filterOf(call.query as never), agentId },
    payload,
  };
}

class Reader {
  readonly #body: BodyParts;
  readonly #digest: string;
  #unread = '';
  #wake: () => void = () => undefined;

  constructor(body: BodyParts, digest: string) {
    this.#body = body;
    this.#digest = digest;
  }

  /** Resolves when the reader may read no more or the process ends; rejects when it has left or is too slow. */
  async follow({ live }: Parts, question: Question, from: LivePosition | 'late' | undefined): Promise<void> {
    const { signal } = this.#body;
    signal.addEventListener('abort', () => this.#wake(), { once: true });
    this.#send('retry: 1000\n\n');
    if (from === 'late') this.#send('event: reset\ndata: {}\n\n');
    const position = from === 'late' ? undefined : from;
    const send = (update: LiveUpdate) => this.#sendUpdate(update);
    const begin = await ask(() => live.follow(question, { position, signal, send }));
    this.#send(`id: ${idOf(begin, this.#digest)}\nevent: ready\ndata: {}\n\n`);
    await this.#handOut();
  }

  /** Asks whether it may go on where there is nothing to send, too, so that it ends in time. */
  async #handOut(): Promise<void> {
    const { signal } = this.#body;
    try {
      for (let heartbeatMs = performance.now() + LIVE_HEARTBEAT_MS; ; ) {
        const unread = this.#unread;
        this.#unread = '';
        await this.#body.put(unread);
        if (performance.now() > heartbeatMs) {
          heartbeatMs += LIVE_HEARTBEAT_MS;
          this.#send(':\n\n');
        }
        if (this.#unread !== '') continue;
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, LIVE_CHECK_MS);
          this.#wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    } catch (error) {
      // A sound end: the browser comes back by itself, and gets the error then.
      if (signal.reason !== 'draining' && signal.reason !== 'not_allowed') throw error;
    }
  }

  #sendUpdate(update: LiveUpdate): void {
    const id = `id: ${idOf(update.position, this.#digest)}\n`;
    if ('text' in update) this.#send(`${id}event: ${update.topic}\ndata: ${onOneLine(update.text)}\n\n`);
    else this.#send(`${id}event: skipped\ndata: {"topic":"${update.topic}","count":${update.skipped}}\n\n`);
  }

  #send(text: string): void {
    this.#unread += text;
    if (this.#unread.length > LIVE_UNREAD_BYTES_MAX) this.#body.abort('too_slow');
    this.#wake();
  }
}

// -- ids

const VERSION = 1;

function digestOf(question: Question): string {
  return createHash('sha256').update(JSON.stringify(question)).digest('base64url').slice(0, 12);
}

function idOf({ events, anomalies, approvals, deliveries }: LivePosition, digest: string): string {
  const fields = [VERSION, digest, Date.now(), events.at, events.id, anomalies.at, anomalies.id, approvals, deliveries];
  return Buffer.from(JSON.stringify(fields)).toString('base64url');
}

/** Throws ServiceError validation_failed. */
function positionOf(id: string | undefined, digest: string): LivePosition | 'late' | undefined {
  if (id === undefined || id === '') return undefined;
  const fields = fieldsOf(id);
  if (fields === undefined) throw badCursor('is not the id of a row that a stream has sent');
  const [, of, sentMs, eventsAt, eventsId, anomaliesAt, anomaliesId, approvals, deliveries] = fields;
  if (of !== digest) throw badCursor('is of another stream, or of other topics or filters; begin again without it');
  if (Date.now() - (sentMs as number) > LIVE_RESUME_MS_MAX) return 'late';
  return {
    events: { at: eventsAt as number, id: eventsId as string },
    anomalies: { at: anomaliesAt as number, id: anomaliesId as string },
    approvals: approvals as number,
    deliveries: deliveries as number,
  };
}

const KINDS = ['number', 'string', 'number', 'number', 'string', 'number', 'string', 'number', 'number'];

function fieldsOf(id: string): unknown[] | undefined {
  try {
    const fields = JSON.parse(Buffer.from(id, 'base64url').toString()) as unknown;
    const isOurs =
      Array.isArray(fields) &&
      fields[0] === VERSION &&
      fields.length === KINDS.length &&
      fields.every((field, i) => typeof field === KINDS[i] && (typeof field !== 'number' || isWhole(field)));
    return isOurs ? fields : undefined;
  } catch {
    return undefined;
  }
}

function isWhole(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function badCursor(message: string) {
  return validationFailed('The stream cannot go on from there.', [{ path: 'cursor', message }]);
}
