// Checks values against the API's description, in the strict mode of ajv (JSON Schema 2020-12), so that a keyword that
// means nothing is found too. `closed`: objects hold nothing that is not described, as the service's own answers must
// not.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { parseTime } from '../../schemas/time.ts';

type Node = Record<string, unknown>;

export class OpenApiChecker {
  readonly #ajv: Ajv2020;
  readonly #document: Node;
  readonly #checks = new Map<string, ValidateFunction>();

  constructor(document: object, options: { closed?: boolean } = {}) {
    this.#document = rewritten(document, options.closed === true) as Node;
    this.#ajv = new Ajv2020({
      strict: true,
      allErrors: true,
      // `payload_schema` is named twice, for generators of types: schemas/policy-conditions.ts.
      allowMatchingProperties: true,
      // "One of these types" is a list of types in JSON Schema 2020-12.
      allowUnionTypes: true,
    });
    // OpenAPI's own; what it says of `oneOf` the members say as well.
    this.#ajv.addVocabulary(['discriminator']);
    this.#ajv.addFormat('date-time', (text) => parseTime(text) !== null);
    const { schemas } = this.#document['components'] as { schemas: object };
    this.#ajv.addSchema({ $id: 'api', $defs: schemas });
  }

  /** `#/components/schemas/Agent`. Throws where there is no such schema, or one that is not sound. */
  schema(pointer: string): ValidateFunction {
    const known = this.#checks.get(pointer);
    if (known !== undefined) return known;
    const check = this.#ajv.compile(at(this.#document, pointer) as object);
    this.#checks.set(pointer, check);
    return check;
  }

  /** One that was read out of the description. */
  schemaOf(schema: object): ValidateFunction {
    return this.#ajv.compile(rewritten(schema, false) as object);
  }

  /** Lists the pointers of every schema in the description that stands by itself. */
  schemaPointers(): string[] {
    const found: string[] = [];
    const visit = (value: unknown, place: string): void => {
      if (typeof value !== 'object' || value === null) return;
      for (const [key, item] of Object.entries(value)) {
        const pointer = `${place}/${escaped(key)}`;
        if (key === 'schema' || place === '#/components/schemas') found.push(pointer);
        else if (key !== 'example' && key !== 'examples') visit(item, pointer);
      }
    };
    visit(this.#document, '#');
    return found;
  }
}

/** One step of a pointer. */
export function escaped(step: string): string {
  return step.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The value that a pointer `#/…` leads to. */
export function at(document: unknown, pointer: string): unknown {
  const steps = pointer.split('/').slice(1);
  const found = steps.reduce<unknown>(
    (value, step) => (value as Node | undefined)?.[step.replaceAll('~1', '/').replaceAll('~0', '~')],
    document,
  );
  if (found === undefined) throw new Error(`nothing at ${pointer}`);
  return found;
}

/**
 * Named schemas are found in a schema of their own; objects that say nothing of further members are closed, if that is
 * wanted.
 */
function rewritten(value: unknown, close: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => rewritten(item, close));
  if (typeof value !== 'object' || value === null) return value;
  const node = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rewritten(item, close)])) as Node;
  const { $ref: ref } = node;
  if (typeof ref === 'string') node['$ref'] = ref.replace('#/components/schemas/', 'api#/$defs/');
  const isOpen =
    node['type'] === 'object' && typeof node['properties'] === 'object' && node['additionalProperties'] === undefined;
  return close && isOpen ? { ...node, additionalProperties: false } : node;
}
