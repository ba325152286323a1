// Reads the query string, strictly: each list says which parameters it knows, and anything else is refused, so that
// a misspelt filter never silently shows more than was asked for.
// A filter may be repeated: any of its values will do. Everything else stands once.
// Refused with 400 `validation_failed`, the parameter named: unknown ones, two of what is once, broken percent
// escapes, values out of range. `from` after `to` is no error: no event satisfies both, so the list is empty.

import { parseSearch } from '../../../clickhouse/queries/search.ts';
import { offsetsOf } from '../../../clickhouse/queries/time-buckets.ts';
import { PAYLOAD_MODES, type PayloadMode } from '../../../schemas/closed-sets.ts';
import type { ErrorDetail } from '../../../schemas/error.ts';
import { parseExactTime } from '../../../schemas/time.ts';
import { FILTER_VALUES_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';

/** ClickHouse reads and drops what an offset skips: no list is that long. */
const OFFSET_MAX = 1_000_000_000;
const TEXT_CHARACTERS_MAX = 200;
const SEARCH_CHARACTERS_MAX = 500;
const ZONE_CHARACTERS_MAX = 100;
/**
 * The longest: of a trace whose id is 200 characters that JSON escapes, six times as long, and a third more as base64.
 */
const CURSOR_CHARACTERS_MAX = 2_000;

/** One parameter: how it is read, and how the API's description shows it. */
type Parameter<T> = {
  /** One value. Throws a sentence (as Error) for one that does not fit. */
  read(text: string): unknown;
  /** Its values are gathered in a list, each once. */
  repeats?: true;
  /** The parameter with which it cannot be combined. */
  excludes?: string;
  /** Where the parameter is absent. */
  absent: T;
  schema: Record<string, unknown>;
  description: string;
};
export type Parameters = Record<string, Parameter<unknown>>;
export type QueryOf<P extends Parameters> = { [K in keyof P]: P[K] extends Parameter<infer T> ? T : never };

class BadValue extends Error {
  override name = 'BadValue';
}

/** The parameters of routes that take none, submissions of events among them. */
export const NO_PARAMETERS: Parameters = Object.freeze({});
const NOTHING = Object.freeze({});

export function parseQuery<P extends Parameters>(parameters: P, raw: string): QueryOf<P> {
  if (raw === '' && parameters === NO_PARAMETERS) return NOTHING as QueryOf<P>;
  const query: Record<string, unknown> = {};
  for (const name in parameters) query[name] = parameters[name]!.absent;
  if (raw === '') return query as QueryOf<P>;
  const problems: ErrorDetail[] = [];
  const seen = new Set<string>();
  for (const part of raw.split('&')) {
    if (part === '') continue;
    const problem = readPart(parameters, part, seen, query);
    if (problem !== undefined) problems.push(problem);
  }
  for (const name of seen) {
    const other = parameters[name]!.excludes;
    if (other !== undefined && seen.has(other)) problems.push({ path: name, message: `cannot stand beside ${other}` });
  }
  if (problems.length > 0) throw validationFailed('The query string does not fit.', problems.slice(0, 8));
  return query as QueryOf<P>;
}

function readPart(
  parameters: Parameters,
  part: string,
  seen: Set<string>,
  query: Record<string, unknown>,
): ErrorDetail | undefined {
  const at = part.indexOf('=');
  const rawName = at < 0 ? part : part.slice(0, at);
  const name = decode(rawName);
  if (name === undefined) return { path: rawName, message: 'has a broken percent escape' };
  if (!Object.hasOwn(parameters, name)) return { path: name, message: unknownParameter(parameters) };
  const parameter = parameters[name]!;
  if (seen.has(name) && !parameter.repeats) return { path: name, message: 'is there twice' };
  seen.add(name);
  const text = at < 0 ? '' : decode(part.slice(at + 1));
  if (text === undefined) return { path: name, message: 'has a broken percent escape' };
  try {
    const value = parameter.read(text);
    query[name] = parameter.repeats ? gathered(query[name] as unknown[] | undefined, value) : value;
  } catch (error) {
    if (error instanceof BadValue) return { path: name, message: error.message };
    throw error;
  }
  return undefined;
}

function gathered(before: readonly unknown[] = [], value: unknown): readonly unknown[] {
  if (before.includes(value)) return before;
  if (before.length === FILTER_VALUES_MAX) throw new BadValue(`has more than ${FILTER_VALUES_MAX} values`);
  return [...before, value];
}

function unknownParameter(parameters: Parameters): string {
  const names = Object.keys(parameters);
  return names.length === 0 ? 'unknown parameter; this takes none' : `unknown parameter; known are ${names.join(', ')}`;
}

/** Percent escapes must spell UTF-8; `+` is a space, as forms write it. */
function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}

// -- kinds of parameters

export function timeZone(description: string): Parameter<string | undefined> {
  const { read, ...name } = text(description, ZONE_CHARACTERS_MAX);
  return {
    ...name,
    read(value) {
      try {
        offsetsOf(value);
        return read(value);
      } catch {
        throw new BadValue('must be the name of a time zone, such as Europe/Berlin');
      }
    },
  };
}

/** The parameter that stands for a session where a browser saves a file: it sends no headers of the page then. */
export function sessionParameter(): Parameter<string | undefined> {
  return text(
    'For pages: id of the session that the page goes by, as `Gatehouse-Session`, which a download cannot send',
  );
}

export function integer(
  description: string,
  range: { minimum: number; maximum: number; default: number },
): Parameter<number> {
  const { minimum, maximum } = range;
  return {
    read(text) {
      const value = /^-?[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
      if (!(value >= minimum && value <= maximum))
        throw new BadValue(`must be an integer from ${minimum} to ${maximum}`);
      return value;
    },
    absent: range.default,
    schema: { type: 'integer', ...range },
    description,
  };
}

export function oneOf<T extends string>(description: string, values: readonly T[]): Parameter<T | undefined> {
  return {
    read(text) {
      if (!(values as readonly string[]).includes(text)) throw new BadValue(`must be one of ${values.join(', ')}`);
      return text as T;
    },
    absent: undefined,
    schema: { type: 'string', enum: [...values] },
    description,
  };
}

/** Epoch ms, to the microsecond. */
export function time(description: string): Parameter<number | undefined> {
  return {
    read(text) {
      // An offset's `+` that was not escaped arrives as a space; what stands in for the `T` has a time behind it.
      const ms = parseExactTime(text.replace(/ (?=\d\d(?::?\d\d)?$)/, '+'));
      if (ms === null) throw new BadValue('must be an ISO 8601 date-time with an offset or Z');
      return ms;
    },
    absent: undefined,
    schema: { type: 'string', format: 'date-time' },
    description,
  };
}

/** Words or a quoted phrase to look for (clickhouse/queries/search.ts). */
export function search(description: string): Parameter<string | undefined> {
  const { read, ...rest } = text(description, SEARCH_CHARACTERS_MAX);
  return {
    ...rest,
    read(value) {
      if (parseSearch(value).terms.length === 0 && value !== '')
        throw new BadValue('has nothing to look for: no letter, digit or symbol outside punctuation');
      return read(value);
    },
  };
}

export function text(description: string, charactersMax = TEXT_CHARACTERS_MAX): Parameter<string | undefined> {
  return {
    read(value) {
      if (value.length < 1 || value.length > charactersMax)
        throw new BadValue(`must be 1 to ${charactersMax} characters`);
      return value;
    },
    absent: undefined,
    schema: { type: 'string', minLength: 1, maxLength: charactersMax },
    description,
  };
}

/** How much of their payloads events are listed with. */
export function payloadMode(): Parameter<PayloadMode> {
  return {
    ...oneOf(
      'Events with their `payload`, with `payload_preview` and `payload_bytes`, or with `payload_bytes` alone',
      PAYLOAD_MODES,
    ),
    absent: 'full',
    schema: { type: 'string', enum: [...PAYLOAD_MODES], default: 'full' },
  };
}

/** A filter that may be repeated: what fits any of its values is shown. */
export function anyOf<T>(filter: Parameter<T | undefined>): Parameter<readonly T[] | undefined> {
  return {
    read: filter.read,
    repeats: true,
    absent: undefined,
    schema: { type: 'array', items: filter.schema, minItems: 1, maxItems: FILTER_VALUES_MAX },
    description: `${filter.description}. Repeated: any of them`,
  };
}

/** The filters of lists of what has an id and a name. */
export function namedFilters(one: string, all: string) {
  return {
    id: anyOf(text(`Only the ${one} with this id`)),
    q: text(`Only ${all} with these characters in their names, in upper or lower case`),
  };
}

/** `true` or `false`. */
export function flag(description: string, absent: boolean): Parameter<boolean> {
  return {
    read(text) {
      if (text !== 'true' && text !== 'false') throw new BadValue('must be true or false');
      return text === 'true';
    },
    absent,
    schema: { type: 'boolean', default: absent },
    description,
  };
}

/** A parameter of OPA's: a flag that needs no value, or a word of a list. */
export function opaFlag(description: string, words: readonly string[] = ['true', 'false']): Parameter<boolean> {
  return {
    read(text) {
      if (text !== '' && !words.includes(text)) throw new BadValue(`must be one of ${words.join(', ')}, or empty`);
      return text !== 'false' && text !== 'off';
    },
    absent: false,
    schema: { type: 'string', enum: ['', ...words] },
    description,
  };
}

/** `limit`, `offset` and `cursor` of a list. */
export function paging(range: { default: number; maximum: number }) {
  return {
    ...cursorPaging(range),
    offset: integer('Items skipped. A cursor is the cheaper way to go deep', {
      minimum: 0,
      maximum: OFFSET_MAX,
      default: 0,
    }),
  };
}

/** The paging of what is read on by cursor alone. */
export function cursorPaging(range: { default: number; maximum: number }) {
  return {
    limit: integer('Items of a page', { minimum: 1, ...range }),
    cursor: {
      ...text(
        '`next_cursor` of the page before, with the same filters and order: goes on behind its last item. Not beside `offset`',
        CURSOR_CHARACTERS_MAX,
      ),
      excludes: 'offset',
    },
  };
}

export const RESOURCE_PAGE = { default: 20, maximum: 100 };
export const RECORD_PAGE = { default: 50, maximum: 500 };
