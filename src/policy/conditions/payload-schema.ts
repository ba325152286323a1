// The `payload_schema` of conditions: a JSON Schema (2020-12) that matches when the payload does NOT satisfy it.
// A safe subset, compiled by ajv when the policy is created: no references, no `uniqueItems` (quadratic), no `$data`;
// unknown keywords and formats are refused, so that a misspelt rule cannot silently let everything pass. `pattern` and
// `patternProperties` are RE2 and run on our automaton.
// What bounds the work: ajv's code cannot be interrupted, so before it runs its cost is bounded from above: every
// keyword may inspect every value of the payload, and every length read every character. Over the budget counts as a
// match.
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { JsonObject } from '../../../schemas/common.ts';
import { mayHoldLongNumber } from '../../common/exact-json.ts';
import { isNumber, isObject, LongNumber } from '../../common/exact-number.ts';
import { lazily } from '../../common/lazily.ts';
import { Budget, expressionUnits, OverBudget } from '../budget.ts';
import { below, type Mistakes, type PolicyReading } from '../policy-error.ts';
import type { Sought } from '../sought.ts';
import type { PatternAllowance } from '../text-search/pattern-allowance.ts';
import { PatternError } from '../text-search/program.ts';
import { textPatternOf } from '../text-search/text-pattern.ts';
import type { Demand } from '../text-view.ts';
import { exactForm, isExactKeyword, keywordOf, rounded, SentNumbers, SUBSCHEMAS } from './exact-schema.ts';
import { perPayload } from './per-payload.ts';
import type { Step } from './pointer.ts';
import { demandsOfSchema } from './schema-demands.ts';

const SCHEMA_NODES_MAX = 500;
const SCHEMA_DEPTH_MAX = 10;

/** One keyword inspecting one value, and one character read by a length. */
const VISIT_UNITS = 6;
const CHARACTER_UNITS = 1;

const PLAIN = new Set([
  ...['type', 'enum', 'const', 'multipleOf', 'maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum'],
  ...['maxLength', 'minLength', 'pattern', 'maxItems', 'minItems', 'maxContains', 'minContains'],
  ...['maxProperties', 'minProperties', 'required', 'dependentRequired'],
  ...['title', 'description', '$comment', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$schema'],
]);
const REFUSED: Record<string, string> = {
  $ref: 'references are not supported',
  $dynamicRef: 'references are not supported',
  $recursiveRef: 'references are not supported',
  $id: 'references are not supported',
  $anchor: 'references are not supported',
  $dynamicAnchor: 'references are not supported',
  $defs: 'references are not supported',
  definitions: 'references are not supported',
  uniqueItems: 'is not supported: its cost grows with the square of the list',
  format: 'is not supported; write a `pattern`',
};
const DIALECT = 'https://json-schema.org/draft/2020-12/schema';

type Validate = ((payload: unknown) => boolean) & { errors?: { instancePath: string; keyword: string }[] | null };

type PayloadWithText = { payload: JsonObject; payloadText: string };

/** The payload as ajv gets it; `sent`: for each object and array in it the one with the numbers as they were sent. */
const asDoubles = perPayload(
  ({ payload, payloadText }: PayloadWithText): { payload: JsonObject; sent: SentNumbers['sent'] } => {
    if (!mayHoldLongNumber(payloadText)) return { payload, sent: NOTHING_LONG };
    const sent = new Map<object, object>();
    return { payload: rounded(payload, sent) as JsonObject, sent };
  },
);
const NOTHING_LONG: SentNumbers['sent'] = new Map();

export class PayloadSchema {
  readonly #validate: Validate;
  /** Values inside the schema: no value of a payload is inspected more often. */
  readonly #size: number;
  /** Keywords that read a text to its end; patterns charge for themselves. */
  readonly #lengths: number;
  /** Where the compiled code's patterns find the budget of the event at hand. */
  readonly #patterns: BudgetedPatterns;
  readonly #numbers = new SentNumbers();
  readonly #schema: unknown;

  /** The schema must have passed `checkSchema`. */
  constructor(schema: unknown, patterns: PatternAllowance) {
    this.#schema = schema;
    this.#patterns = new BudgetedPatterns(patterns);
    const ajv = new Ajv2020({
      strict: false,
      validateFormats: false,
      validateSchema: false,
      addUsedSchema: false,
      logger: false,
      ownProperties: true,
      // Its optimizer takes the square of the schema's size: 130 of 160 ms for 400 properties.
      code: { optimize: false, regExp: this.#patterns.regExp },
    });
    this.#numbers.addKeywords(ajv);
    this.#validate = ajv.compile(exactForm(schema) as object) as Validate;
    this.#size = countJson(schema);
    this.#lengths = JSON.stringify(schema).split(/"m(?:ax|in)Length":/).length - 1;
  }

  /** The demands of the schema on an event (demands.ts). */
  demands(sought: Sought): Demand[] {
    // Where everything that a payload may hold is charged, it stays below any budget.
    const unitsOfByte = this.#cost(0.5, 1);
    const bytesMax = (expressionUnits(0) - VISIT_UNITS * this.#size) / unitsOfByte;
    return demandsOfSchema(this.#schema, bytesMax, sought);
  }

  /** True if the payload does not satisfy the schema. Throws OverBudget. */
  test({ payload, payloadText }: PayloadWithText, budget: Budget): boolean {
    const payloadCharacters = payloadText.length;
    budget.spend(VISIT_UNITS * this.#size);
    // A payload cannot have more values than half its characters; only a large one is worth counting.
    const isSmall = this.#cost(payloadCharacters / 2, payloadCharacters) < budget.left / 8;
    budget.spend(this.#cost(isSmall ? payloadCharacters / 8 : countValues(payload, budget), payloadCharacters));
    this.#patterns.budget = budget;
    this.#numbers.budget = budget;
    const doubles = asDoubles({ payload, payloadText });
    this.#numbers.sent = doubles.sent;
    return !this.#validate(doubles.payload);
  }

  /**
   * The value that does not satisfy the schema, to be asked where `test` says so: the steps to it, and the keyword.
   * Throws OverBudget.
   */
  failure(event: PayloadWithText, budget: Budget): { steps: Step[]; keyword: string } | null {
    if (!this.test(event, budget)) return null;
    // Of a combination (`anyOf`) the parts come first, and last the whole.
    const error = this.#validate.errors?.at(-1);
    if (error === undefined) return null;
    const steps = error.instancePath.split('/').slice(1);
    return {
      steps: steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~')),
      keyword: keywordOf(error.keyword),
    };
  }

  #cost(values: number, characters: number): number {
    return this.#size * VISIT_UNITS * values + this.#lengths * CHARACTER_UNITS * characters;
  }
}

/** Stands for RegExp in ajv: makes one object per pattern, each bound to the schema's current budget. */
class BudgetedPatterns {
  budget = new Budget(0);
  readonly regExp: ((source: string) => { test(text: string): boolean }) & { code: string };

  constructor(patterns: PatternAllowance) {
    const make = (source: string) => {
      const pattern = textPatternOf(patterns.pattern(source, 'exact'));
      // ajv takes patterns of the same text for one.
      return { test: (text: string) => pattern.test(text, this.budget), toString: () => source };
    };
    this.regExp = Object.assign(make, { code: 'new RegExp' });
  }
}

function countValues(value: unknown, budget: Budget): number {
  if (typeof value !== 'object' || value === null) return 1;
  let count = 1;
  for (const key in value) {
    budget.spend(4);
    count += countValues((value as Record<string, unknown>)[key], budget);
  }
  return count;
}

/** Knows what a schema is. Made once: it compiles the schema of schemas, which takes 40 ms. */
const schemaOfSchemas = lazily(() => new Ajv2020({ strict: false, validateFormats: false, logger: false }));

/** Names every keyword that is not of the safe subset; compiles the schema if all are. */
export function checkSchema(
  schema: unknown,
  at: string,
  { mistakes, patterns }: PolicyReading,
): PayloadSchema | undefined {
  const before = mistakes.details.length;
  const walk = new Walk(mistakes, patterns);
  const nodes = walk.count(schema, at);
  if (nodes > SCHEMA_NODES_MAX) mistakes.add(at, `must have at most ${SCHEMA_NODES_MAX} nodes, has ${nodes}`);
  if (mistakes.details.length > before) return undefined;
  try {
    const meta = schemaOfSchemas();
    if (meta.validateSchema(rounded(schema) as object) !== true) {
      for (const error of (meta.errors ?? []).slice(0, 4))
        mistakes.add(at + error.instancePath, error.message ?? 'is not valid');
      return undefined;
    }
    return new PayloadSchema(schema, patterns);
  } catch (error) {
    if (error instanceof OverBudget) throw error;
    mistakes.add(at, `is not a JSON Schema: ${(error as Error).message}`);
    return undefined;
  }
}

/** Counts the nodes of a schema: subschemas, and members of `enum`, `required` and the like. */
class Walk {
  readonly #mistakes: Mistakes;
  readonly #patterns: PatternAllowance;

  constructor(mistakes: Mistakes, patterns: PatternAllowance) {
    this.#mistakes = mistakes;
    this.#patterns = patterns;
  }

  count(schema: unknown, at = '', depth = 1): number {
    if (typeof schema === 'boolean') return 1;
    if (!isObject(schema)) return this.#mistake(at, 'must be a schema: an object or a boolean');
    if (depth > SCHEMA_DEPTH_MAX)
      return this.#mistake(at, `must not be nested deeper than ${SCHEMA_DEPTH_MAX} schemas`);
    let nodes = 1;
    for (const [keyword, value] of Object.entries(schema))
      nodes += this.#keyword(keyword, value, below(at, keyword), depth);
    return nodes;
  }

  #keyword(keyword: string, value: unknown, at: string, depth: number): number {
    if (Object.hasOwn(REFUSED, keyword)) return this.#mistake(at, REFUSED[keyword]!);
    if (SUBSCHEMAS.one.has(keyword)) return this.count(value, at, depth + 1);
    if (SUBSCHEMAS.list.has(keyword)) return this.#all(Array.isArray(value) ? [...value.entries()] : null, at, depth);
    if (SUBSCHEMAS.named.has(keyword))
      return this.#all(isObject(value) ? Object.entries(value) : null, at, depth, keyword === 'patternProperties');
    if (!PLAIN.has(keyword)) return this.#mistake(at, 'unknown keyword');
    if (value instanceof LongNumber && !isExactKeyword(keyword))
      return this.#mistake(at, 'is longer than it may be here');
    if (keyword === '$schema' && value !== DIALECT) return this.#mistake(at, `must be ${DIALECT}`);
    if (keyword === 'pattern') this.#pattern(value, at);
    if (isObject(value) && '$data' in value) return this.#mistake(at, '$data is not supported');
    return typeof value === 'object' ? countJson(value) : 0;
  }

  #all(entries: [string | number, unknown][] | null, at: string, depth: number, arePatterns = false): number {
    if (entries === null) return this.#mistake(at, 'must hold schemas');
    let nodes = 0;
    for (const [key, schema] of entries) {
      if (arePatterns) this.#pattern(key, below(at, key));
      nodes += this.count(schema, below(at, key), depth + 1);
    }
    return nodes;
  }

  #pattern(source: unknown, at: string): void {
    try {
      this.#patterns.pattern(source, 'exact');
    } catch (error) {
      if (!(error instanceof PatternError)) throw error;
      this.#mistake(at, error.message);
    }
  }

  #mistake(at: string, message: string): number {
    this.#mistakes.add(at, message);
    return 1;
  }
}

/** Values without members of their own. */
function countJson(value: unknown): number {
  if (typeof value !== 'object' || value === null || isNumber(value)) return 1;
  return Object.values(value).reduce<number>((sum, item) => sum + countJson(item), 0);
}
