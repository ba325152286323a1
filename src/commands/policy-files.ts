// Files of declared policies, YAML or JSON (which is YAML): reads them into what the service takes, and writes what it
// answers (`gatehouse policies`). A document is a policy, or a list of policies; a file has any number of documents.
// Invariant: numbers keep the digits that they are written with. What YAML allows and JSON does not is refused with its
// file, line and column: a key twice, a key that is no text, a tag, a number like .inf. So are anchors that would be
// repeated more than ALIASES_MAX times. Two policies of one name are refused with the places of both.

import { readFileSync, statSync } from 'node:fs';
import { Document, LineCounter, type ParsedNode, parseAllDocuments, type ScalarTag, type Tags } from 'yaml';
import type { Policy } from '../../schemas/policy.ts';
import { exactNumber, isNumber, LongNumber } from '../common/exact-number.ts';
import { DECLARATION_BYTES_MAX } from '../common/limits.ts';
import { UserFacingError } from '../common/user-facing-error.ts';

/** `place`: file and line at which it begins. */
export type FilePolicy = { place: string; policy: Record<string, unknown> };

export class PolicyFileError extends UserFacingError {
  override name = 'PolicyFileError';
}

/** As deep as a body may be. */
const LEVELS_MAX = 64;
/** How often what an anchor names is repeated, counted with what it repeats itself. */
const ALIASES_MAX = 100;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** What the service says of a policy that no file says. */
const NOT_DECLARED = ['id', 'revision', 'owner', 'applied_revision', 'expires_at', 'created_at', 'updated_at'] as const;

/** Throws PolicyFileError. */
export function readPolicyFiles(files: readonly string[]): FilePolicy[] {
  const policies = files.flatMap(readPolicyFile);
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

function readPolicyFile(file: string): FilePolicy[] {
  const lines = new LineCounter();
  const documents = parseAllDocuments(textOf(file), {
    ...{ schema: 'core', uniqueKeys: true, stringKeys: true, lineCounter: lines, prettyErrors: false },
    customTags: withExactNumbers,
  });
  if (!Array.isArray(documents)) return [];
  const placeOf = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: `${file}:${line}`, column: `${file}:${line}:${col}` };
  };
  return documents.flatMap((document) => {
    const [problem] = [...document.errors, ...document.warnings];
    if (problem !== undefined) throw new PolicyFileError(`${placeOf(problem.pos[0]).column}: ${firstLineOf(problem)}`);
    const value = contentOf(document, placeOf(document.range[0]).line);
    if (value === null || value === undefined) return [];
    const items = (document.contents as { items?: ParsedNode[] } | null)?.items ?? [];
    const all = Array.isArray(value) ? value.map((item, i) => ({ item: item as unknown, node: items[i] })) : undefined;
    return (all ?? [{ item: value as unknown, node: document.contents }]).map(({ item, node }) => {
      const place = placeOf((node as ParsedNode | null)?.range?.[0] ?? document.range[0]).line;
      if (!isPolicy(item)) throw new PolicyFileError(`${place}: a policy with a \`name\` must stand here`);
      checkJson(item, place);
      return { place, policy: item };
    });
  });
}

/**
 * What the file needs of a policy as the service answers it, in the order in which people read it. `agents`: names by
 * ids; an agent has another id in another account, and the file is to fit there, too.
 */
export function textOfPolicies(policies: readonly Policy[], agents: ReadonlyMap<string, string>): string {
  const documents = policies.map((policy) => {
    const { name, description, type, mode, shadow_of, agent_id, conditions, actions, severity, status, ...rest } =
      policy;
    const unknown = Object.keys(rest).filter((key) => !NOT_DECLARED.includes(key as never));
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
    };
    const document = new Document(declared, {
      schema: 'core',
      customTags: withExactNumbers,
      aliasDuplicateObjects: false,
    });
    return document.toString({ lineWidth: 100 });
  });
  return documents.join('---\n');
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

/** Numbers as JSON writes them keep their text; others are read as YAML has them. */
function withExactNumbers(tags: Tags): Tags {
  const exact = tags.map((tag) => {
    if (typeof tag === 'string' || !/:(int|float)$/.test(tag.tag) || !('resolve' in tag)) return tag;
    const scalar = tag as ScalarTag;
    const resolve: ScalarTag['resolve'] = (text, ...more) =>
      NUMBER.test(text) ? exactNumber(text) : scalar.resolve(text, ...more);
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

/** YAML has values that JSON has not. `levels`: how deep it may still be; an anchor inside itself has no end. */
function checkJson(value: unknown, place: string, levels = LEVELS_MAX): void {
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new PolicyFileError(`${place}: ${value} is no number of JSON`);
  if (typeof value !== 'object' || value === null || isNumber(value)) return;
  if (levels === 0) throw new PolicyFileError(`${place}: it is nested deeper than ${LEVELS_MAX} levels`);
  if (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype)
    throw new PolicyFileError(`${place}: a ${value.constructor.name} is no value of JSON`);
  for (const item of Object.values(value)) checkJson(item, place, levels - 1);
}

function isPolicy(value: unknown): value is Record<string, unknown> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value) && !isNumber(value);
  return isObject && typeof (value as Record<string, unknown>)['name'] === 'string';
}

function firstLineOf({ message }: { message: string }): string {
  return message.split('\n')[0]!;
}
