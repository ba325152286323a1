// Files of declared policies and prices, YAML or JSON (which is YAML): reads them into what the service takes, and
// writes what it answers (`gatehouse policies`, `gatehouse prices`). A document is one, or a list; a file has any
// number of documents.
// Invariant: numbers keep the digits that they are written with, and what is not in quotes is read as JSON reads it, or
// is text. What YAML reads otherwise is refused with its file, line and column: 0755, +5, .inf, ~, TRUE, a key without
// a value, a merge key, a key twice, a key that is no text, a tag. So are anchors that would be repeated more than
// ALIASES_MAX times. Two policies of one name are refused with the places of both.

import { readFileSync, statSync } from 'node:fs';
import {
  Document,
  isScalar,
  LineCounter,
  type Node,
  type ParsedNode,
  parseAllDocuments,
  Scalar,
  type ScalarTag,
  type Tags,
  visit,
} from 'yaml';
import type { Policy } from '../../schemas/policy.ts';
import { exactNumber, isNumber, isObject, LongNumber } from './exact-number.ts';
import { DECLARATION_BYTES_MAX } from './limits.ts';
import { UserFacingError } from './user-facing-error.ts';

/** `place`: file and line at which it begins. */
export type FilePolicy = { place: string; policy: Record<string, unknown> };
export type FilePrice = { place: string; price: Record<string, unknown> };

export class PolicyFileError extends UserFacingError {
  override name = 'PolicyFileError';
}

/** As deep as a body may be. */
const LEVELS_MAX = 64;
/** How often what an anchor names is repeated, counted with what it repeats itself. */
const ALIASES_MAX = 100;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const WORD = /^(?:null|true|false)$/;
/** The only tags: what they stand before is text. */
const TEXT_TAGS = ['!', 'tag:yaml.org,2002:str'];
const SHOWN_CHARACTERS_MAX = 60;
/** The fields that the service adds to a policy and no file has. */
const NOT_DECLARED = [
  ...['id', 'revision', 'owner', 'applied_revision', 'shadow_of_revision', 'expires_at', 'created_at', 'updated_at'],
];

/** Throws PolicyFileError. */
export function readPolicyFiles(files: readonly string[]): FilePolicy[] {
  const policies = files
    .flatMap((file) => readItems(file, POLICIES))
    .map(({ place, item }) => ({ place, policy: item }));
  const places = new Map<string, string>();
  for (const { place, policy } of policies) {
    const name = String(policy['name']);
    const first = places.get(name);
    if (first !== undefined)
      throw new PolicyFileError(`${place}: ${JSON.stringify(name)} is declared at ${first}, too`);
    places.set(name, place);
  }
  return policies;
}

/** Throws PolicyFileError. */
export function readPriceFiles(files: readonly string[]): FilePrice[] {
  return files.flatMap((file) => readItems(file, PRICES)).map(({ place, item }) => ({ place, price: item }));
}

/** The kind of items that a file declares: the key that every item has, and the name of an item. */
type Kind = { key: string; what: string };
const POLICIES: Kind = { key: 'name', what: 'a policy with a `name`' };
const PRICES: Kind = { key: 'model', what: 'a price with a `model`' };

function readItems(file: string, kind: Kind): { place: string; item: Record<string, unknown> }[] {
  const lines = new LineCounter();
  const documents = parseAllDocuments(textOf(file), {
    ...{ schema: 'core', uniqueKeys: true, stringKeys: true, lineCounter: lines, prettyErrors: false },
    customTags: readAsJson,
  });
  if (!Array.isArray(documents)) return [];
  const placeOf = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: `${file}:${line}`, column: `${file}:${line}:${col}` };
  };
  return documents.flatMap((document) => {
    const [problem] = [...document.errors, ...document.warnings];
    if (problem !== undefined) throw new PolicyFileError(`${placeOf(problem.pos[0]).column}: ${firstLineOf(problem)}`);
    checkNodes(document, ({ range }) => placeOf(range?.[0] ?? 0).column);
    const value = contentOf(document, placeOf(document.range[0]).line);
    if (value === null || value === undefined) return [];
    const items = (document.contents as { items?: ParsedNode[] } | null)?.items ?? [];
    const all = Array.isArray(value) ? value.map((item, i) => ({ item: item as unknown, node: items[i] })) : undefined;
    return (all ?? [{ item: value as unknown, node: document.contents }]).map(({ item, node }) => {
      const place = placeOf((node as ParsedNode | null)?.range?.[0] ?? document.range[0]).line;
      if (!isItem(item, kind)) throw new PolicyFileError(`${place}: ${kind.what} must stand here`);
      checkDepth(item, place);
      return { place, item };
    });
  });
}

/**
 * The text of a file with these policies as the service answers them, in the order in which people read it. `agents`:
 * names by ids; an agent has another id in another account, and the file is to fit there, too.
 */
export function textOfPolicies(policies: readonly Policy[], agents: ReadonlyMap<string, string>): string {
  const documents = policies.map((policy) => {
    const { name, description, type, mode, shadow_of, agent_id, conditions, actions, severity, ...more } = policy;
    const { status, starts_at, ...rest } = more;
    const unknown = Object.keys(rest).filter((key) => !NOT_DECLARED.includes(key));
    if (unknown.length > 0) throw new Error(`a policy has ${unknown.join(', ')}, of which no file says anything`);
    const declared = {
      name,
      ...(description === undefined ? {} : { description }),
      type,
      ...(mode === 'shadow' ? { mode } : {}),
      ...(shadow_of === undefined ? {} : { shadow_of }),
      ...(agent_id === null ? {} : scopeOf(agent_id, agents)),
      conditions,
      actions,
      ...(severity === null ? {} : { severity }),
      ...(status === 'active' ? {} : { status }),
      ...(starts_at === undefined ? {} : { starts_at }),
    };
    return textOfDocument(declared);
  });
  return documents.join('---\n');
}

/** One document, a list. */
export function textOfPrices(prices: readonly object[]): string {
  return textOfDocument(prices);
}

function textOfDocument(value: unknown): string {
  const document = new Document(value, { schema: 'core', customTags: readAsJson, aliasDuplicateObjects: false });
  return document.toString({ lineWidth: 100 });
}

function scopeOf(id: string, agents: ReadonlyMap<string, string>): object {
  const name = agents.get(id);
  return name === undefined ? { agent_id: id } : { agent: name };
}

function textOf(file: string): string {
  try {
    if (statSync(file).size > DECLARATION_BYTES_MAX)
      throw new PolicyFileError(`${file} has more than ${DECLARATION_BYTES_MAX} bytes`);
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    if (error instanceof PolicyFileError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new PolicyFileError(
      code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
        ? `${file} is not UTF-8`
        : `cannot read ${file} (${code ?? 'error'})`,
    );
  }
}

function contentOf(document: Document.Parsed, place: string): unknown {
  try {
    return document.toJS({ maxAliasCount: ALIASES_MAX });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const message = /excessive/i.test(error.message)
      ? `anchors are repeated more than ${ALIASES_MAX} times`
      : error.message;
    throw new PolicyFileError(`${place}: ${message}`);
  }
}

/** Numbers keep their text. What YAML would take for a value that JSON writes in another way is refused. */
function readAsJson(tags: Tags): Tags {
  const exact = tags.map((tag) => {
    if (typeof tag === 'string' || tag.default !== true || !('test' in tag) || tag.test === undefined) return tag;
    const scalar = tag as ScalarTag;
    const resolve: ScalarTag['resolve'] = (text, onError, options) => {
      if (NUMBER.test(text)) return exactNumber(text);
      // Whether nothing may stand there the nodes around it say.
      if (text !== '' && !WORD.test(text)) onError(notAsInJson(scalar, text));
      return scalar.resolve(text, onError, options);
    };
    return { ...scalar, resolve };
  });
  const long: ScalarTag = {
    tag: 'tag:yaml.org,2002:float',
    default: true,
    identify: (value) => value instanceof LongNumber,
    resolve: (text) => text,
    stringify: ({ value }) => (value as LongNumber).text,
  };
  return [...exact, long];
}

function notAsInJson({ tag }: ScalarTag, text: string): string {
  const shown = text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
  if (/:(int|float)$/.test(tag)) return `${shown} is no number of JSON: write it in quotes, or as JSON writes numbers`;
  return `${shown} is no value of JSON: write ${text === '~' ? 'null' : text.toLowerCase()}, or write it in quotes`;
}

/** Throws PolicyFileError: what says something else than it seems to, or nothing. */
function checkNodes(document: Document.Parsed, placeOf: (node: Node) => string): void {
  const refuse = (node: Node, message: string) => {
    throw new PolicyFileError(`${placeOf(node)}: ${message}`);
  };
  const checkTag = (_key: unknown, node: Node) => {
    if ('tag' in node && node.tag !== undefined && !TEXT_TAGS.includes(node.tag as string))
      refuse(node, `tags are not taken, but !!str: ${node.tag}`);
  };
  visit(document, {
    Map: checkTag,
    Scalar: checkTag,
    Seq(key, node) {
      checkTag(key, node);
      for (const item of node.items)
        if (isNothing(item)) refuse(item as Node, 'an item has no value: write it, or null');
    },
    Pair(_, { key, value }) {
      if (!isScalar(key)) return;
      const isPlain = key.type === Scalar.PLAIN;
      if (isPlain && key.value === '<<') refuse(key, 'merge keys (<<) are not taken: write the fields out');
      if (isPlain && key.source === '') refuse(key, 'a key must stand before the colon');
      if (value === null || isNothing(value))
        refuse(key, `${JSON.stringify(key.value)} has no value: write what it is, or null`);
    },
  });
}

function isNothing(node: unknown): boolean {
  return isScalar(node) && node.value === null && node.source === '';
}

/** `levels`: how deep it may still be; an anchor inside itself has no end. */
function checkDepth(value: unknown, place: string, levels = LEVELS_MAX): void {
  if (typeof value !== 'object' || value === null || isNumber(value)) return;
  if (levels === 0) throw new PolicyFileError(`${place}: it is nested deeper than ${LEVELS_MAX} levels`);
  for (const item of Object.values(value)) checkDepth(item, place, levels - 1);
}

function isItem(value: unknown, { key }: Kind): value is Record<string, unknown> {
  return isObject(value) && typeof value[key] === 'string';
}

function firstLineOf({ message }: { message: string }): string {
  // What the parser says of what is nested too deep for it.
  return /call stack/.test(message) ? `it is nested deeper than ${LEVELS_MAX} levels` : message.split('\n')[0]!;
}
