// Turns what typebox says of a bad value into the `details` of an answer: a JSON pointer and a sentence a caller can
// act on. Used by admission for bodies and queries, and by ingest for events. Only run after a check has failed: it
// costs 50 µs.
import type { Validator } from 'typebox/compile';
import { WELL_FORMED } from '../../schemas/common.ts';
import type { ErrorDetail } from '../../schemas/error.ts';
import { ServiceError } from './errors.ts';

type SchemaError = { keyword: string; instancePath: string; message: string; params: object };
const DETAILS_MAX = 8;
const A_TIME = 'must be an ISO 8601 date-time with an offset or Z';

/** The mistakes in `value`, at most 8; `base` is the pointer of the value inside the body. */
export function errorDetails(validator: Pick<Validator, 'Errors'>, value: unknown, base = ''): ErrorDetail[] {
  const details = new Map<string, ErrorDetail>();
  const errors = validator.Errors(value) as SchemaError[];
  // typebox says `boolean` of a field that must not be there, and what is wrong with one that may: only the first is
  // unknown.
  const unknown = new Set(
    errors.filter(({ keyword }) => keyword === 'boolean').map((error) => base + error.instancePath),
  );
  for (const error of errors) {
    for (const detail of detailsOf(error, base)) {
      if (error.keyword === 'additionalProperties' && !unknown.has(detail.path)) continue;
      details.set(`${detail.path} ${detail.message}`, detail);
    }
  }
  return [...details.values()].slice(0, DETAILS_MAX);
}

/** `message` is a sentence; a single detail is part of it, for clients that show the sentence alone. */
export function validationFailed(message: string, details: ErrorDetail[]): ServiceError {
  const [only, ...more] = details;
  const whole =
    only === undefined || more.length > 0 ? message : `${message.replace(/\.$/, '')}: ${only.path} ${only.message}.`;
  return new ServiceError('validation_failed', whole, { details, recorded: false });
}

function detailsOf(error: SchemaError, base: string): ErrorDetail[] {
  const path = base + error.instancePath;
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case 'boolean': // the entry `additionalProperties` says more
      return [];
    case 'additionalProperties':
      return names(params['additionalProperties']).map((name) => ({
        path: `${path}/${pointerKey(name)}`,
        message: 'unknown field',
      }));
    case 'required':
      return names(params['requiredProperties']).map((name) => ({
        path: `${path}/${pointerKey(name)}`,
        message: 'is required',
      }));
    case 'enum':
      return [{ path, message: `must be one of ${names(params['allowedValues']).join(', ')}` }];
    case 'format':
      return [{ path, message: params['format'] === 'date-time' ? A_TIME : error.message }];
    case 'pattern':
      return [{ path, message: params['pattern'] === WELL_FORMED ? 'must not hold a lone surrogate' : error.message }];
    default:
      return [{ path: path || '/', message: error.message }];
  }
}

function names(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

/** A path that is for people shows so much of a key: its beginning will do. */
const KEY_CHARACTERS_MAX = 100;

/** The JSON Pointer of keys and indices; `/` for the whole. */
export function jsonPointer(path: readonly (string | number)[]): string {
  const parts = path.map((part) => `/${pointerKey(String(part).slice(0, KEY_CHARACTERS_MAX).toWellFormed())}`);
  return parts.length === 0 ? '/' : parts.join('');
}

/** A key as JSON Pointers have it. */
export function pointerKey(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}
