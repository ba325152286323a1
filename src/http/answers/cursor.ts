// Cursors: how a list is read page by page without counting off what was shown before.
// A handler of a list opens its page here and answers with what `page` of reply.ts makes of it. A cursor is text that
// means nothing to its bearer: where the last page ended, how many items the list had when it began and how many were
// shown, and a digest of what list it is of.
// Invariant: a cursor only ever says where to continue. Account and filters come from the request; the digest is there
// to detect an honest mistake, so a forged cursor shows its bearer nothing that they may not see anyway.
// Refused with 400 `validation_failed` that names `cursor`: no cursor, one of another version, list, account, order or
// filter.
import { createHash } from 'node:crypto';
import type { PageStart, Position } from '../../../schemas/paging.ts';
import type { ServiceError } from '../../common/errors.ts';
import { validationFailed } from '../../common/validation.ts';
import type { Call } from '../route.ts';

const VERSION = 2;
/** An id is short. */
const ID_CHARACTERS_MAX = 200;
/** The last time that a JavaScript Date can hold. */
const TIME_MS_MAX = 8.64e15;
/** The parameters that may change from page to page of one list. */
const NOT_OF_THE_LIST = new Set(['limit', 'offset', 'cursor', 'payload', 'format', 'cursors', 'session']);

/** One page of a list, as it was asked for. */
export type OpenPage = PageStart & {
  begunAt: number;
  /** As it was counted when the list began; undefined: this is where it begins. */
  total: number | undefined;
  /** Items of the list before this page. */
  before: number;
  digest: string;
};

type ListQuery = { limit: number; offset?: number; cursor: string | undefined };

/** `list` names what is listed. Throws ServiceError validation_failed. */
export function openPage<Q extends ListQuery>(
  call: Pick<Call<unknown, Q>, 'account' | 'params' | 'query'>,
  list: string,
): OpenPage {
  const { limit, offset = 0, cursor } = call.query;
  const digest = digestOf(call, list);
  if (cursor === undefined) return { limit, offset, begunAt: Date.now(), total: undefined, before: offset, digest };
  const { of, after, total, before, begunAt } = read(cursor);
  if (of !== digest)
    throw badCursor('is of another list, or of other filters, or another order; begin again without it');
  return { limit, offset: 0, after, begunAt, total, before, digest };
}

/** The cursor of the page behind this one. */
export function cursorBehind(page: OpenPage, shown: number, total: number, { at, id }: Position): string {
  const fields = [VERSION, page.digest, at, id, total, page.before + shown, page.begunAt];
  return Buffer.from(JSON.stringify(fields)).toString('base64url');
}

function digestOf(
  { account, params, query }: Pick<Call<unknown, ListQuery>, 'account' | 'params' | 'query'>,
  list: string,
): string {
  const filters = Object.entries(query)
    .filter(([name, value]) => value !== undefined && !NOT_OF_THE_LIST.has(name))
    .map(([name, value]) => [name, Array.isArray(value) ? [...value].sort() : value])
    .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([list, account, params, filters]))
    .digest('base64url')
    .slice(0, 16);
}

type Read = { of: string; after: Position; total: number; before: number; begunAt: number };

function read(cursor: string): Read {
  const fields = parsed(cursor);
  if (!Array.isArray(fields)) throw badCursor('is not a cursor that a list has answered');
  if (fields[0] !== VERSION) throw badCursor('is of another version; begin again without it');
  const [, of, at, id, total, before, begunAt, ...more] = fields as unknown[];
  const isSound =
    more.length === 0 &&
    typeof of === 'string' &&
    isTime(at) &&
    typeof id === 'string' &&
    id.length <= ID_CHARACTERS_MAX &&
    isWhole(total, 0, Number.MAX_SAFE_INTEGER) &&
    isWhole(before, 0, Number.MAX_SAFE_INTEGER) &&
    isWhole(begunAt, 0, TIME_MS_MAX);
  if (!isSound) throw badCursor('is not a cursor that a list has answered');
  return { of, after: { at, id }, total, before, begunAt };
}

function parsed(cursor: string): unknown {
  const bytes = Buffer.from(cursor, 'base64url');
  // What the decoder passed over was not ours.
  if (bytes.toString('base64url') !== cursor) return undefined;
  try {
    return JSON.parse(bytes.toString()) as unknown;
  } catch {
    return undefined;
  }
}

/** Epoch ms, perhaps with microseconds. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= TIME_MS_MAX;
}

function isWhole(value: unknown, minimum: number, maximum: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= minimum && (value as number) <= maximum;
}

function badCursor(message: string): ServiceError {
  return validationFailed('The query string does not fit.', [{ path: 'cursor', message }]);
}
