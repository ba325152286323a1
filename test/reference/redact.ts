// The stored copy of a redacted payload the plain way, for the reference: string by string over the tree of its text,
// every match of every filter that applies there replaced. Shares no code with src/policy/redaction.
import { createHmac } from 'node:crypto';
import type { Policy } from '../../schemas/policy.ts';
import { formsOf } from './forms.ts';
import { type Node, type StringNode, unitsOf } from './json.ts';
import { isIndex, keysNamed, looksAtTrace, needlesOf } from './judge.ts';
import { CARD_NUMBER, detected, detectedNumber, type Place, placesOf } from './patterns.ts';

type Named = Place & { name: string };
type Edit = { start: number; end: number; text: string };

/** `text` is what `payload`'s offsets point into. */
export function redacted(text: string, payload: Node, filters: readonly Policy[]): string {
  const edits: Edit[] = [];
  edit(payload, filters.map(scopeOf), { text, edits });
  let copy = '';
  let from = payload.start;
  for (const { start, end, text: instead } of edits) {
    copy += text.slice(from, start) + instead;
    from = end;
  }
  return copy + text.slice(from, payload.end);
}

/**
 * A filter with the paths that still have to be followed to where it applies; an empty one: it applies here and below.
 */
type Scope = { filter: Policy; paths: string[][] };

function scopeOf(filter: Policy): Scope {
  const fields = filter.conditions['fields'] as string[] | undefined;
  if (fields === undefined) return { filter, paths: [[]] };
  return {
    filter,
    paths: fields
      .filter((field) => field !== 'trace_id')
      .map((field) => {
        const segments = field.split('.');
        return segments[0] === 'payload' ? segments.slice(1) : segments;
      }),
  };
}

function below({ filter, paths }: Scope, step: string | number): Scope {
  return {
    filter,
    paths: paths.flatMap((path) => {
      const [first, ...rest] = path;
      if (first === undefined) return [path];
      if (typeof step === 'string') return keysNamed([step], first).length > 0 ? [rest] : [];
      if (!isIndex(first)) return [path];
      return Number(first) === step ? [rest] : [];
    }),
  };
}

function edit(node: Node, scopes: readonly Scope[], into: { text: string; edits: Edit[] }): void {
  if (node.kind === 'string') editString(node, scopes, into, null);
  else if (node.kind === 'other') editNumber(node, scopes, into);
  else if (node.kind === 'array')
    node.items.forEach((item, i) => {
      edit(
        item,
        scopes.map((scope) => below(scope, i)),
        into,
      );
    });
  else if (node.kind === 'object') {
    const taken = new Set<string>();
    for (const { key, value } of node.members) {
      editString(key, scopes, into, taken);
      edit(
        value,
        scopes.map((scope) => below(scope, key.text)),
        into,
      );
    }
  }
}

function editNumber(node: Node, scopes: readonly Scope[], { text, edits }: { text: string; edits: Edit[] }): void {
  if (text.slice(node.start, node.end) !== String(CARD_NUMBER)) return;
  if (
    !needlesOf(applying(scopes)).some((needle) => 'detector' in needle && detectedNumber(needle.detector, CARD_NUMBER))
  )
    return;
  edits.push({ start: node.start, end: node.end, text: '"[redacted:credit_card]"' });
}

function applying(scopes: readonly Scope[]): Policy[] {
  return scopes.filter(({ paths }) => paths.some((path) => path.length === 0)).map(({ filter }) => filter);
}

/** The form of a trace's id that is kept, where the account has no key of its own. */
export function redactedTrace(traceId: string, filters: readonly Policy[]): string {
  const isFound = filters.some(({ conditions }) => {
    if (!looksAtTrace(conditions['fields'] as string[] | undefined)) return false;
    return needlesOf([{ conditions }]).some((needle) =>
      'pattern' in needle
        ? placesOf(needle.pattern, traceId).length > 0
        : detected(needle.detector, traceId).length > 0,
    );
  });
  return isFound ? `redacted-${createHmac('sha256', '').update(traceId).digest('hex').slice(0, 32)}` : traceId;
}

/** `taken`: what keys of the same object have become. */
function editString(
  node: StringNode,
  scopes: readonly Scope[],
  { text, edits }: { text: string; edits: Edit[] },
  taken: Set<string> | null,
): void {
  const here = applying(scopes);
  const raw = text.slice(node.start + 1, node.end - 1);
  const spans = merged(
    needlesOf(here).flatMap((needle) =>
      formsOf(node.text).flatMap((form) => {
        const places = 'pattern' in needle ? placesOf(needle.pattern, form.text) : detected(needle.detector, form.text);
        const name = 'pattern' in needle ? 'pattern' : needle.detector;
        return places.map(({ start, end }) => ({ start: form.from[start]!.start, end: form.from[end - 1]!.end, name }));
      }),
    ),
  );
  const units = unitsOf(raw);
  let body = '';
  let from = 0;
  for (const { start, end, name } of spans) {
    body += `${units.slice(from, start).join('')}[redacted:${name}]`;
    from = end;
  }
  body += units.slice(from).join('');
  if (taken !== null && body.includes('[redacted:')) {
    let distinct = body;
    for (let i = 2; taken.has(distinct); i++) distinct = `${body}~${i}`;
    body = distinct;
    taken.add(body);
  }
  if (body !== raw) edits.push({ start: node.start + 1, end: node.end - 1, text: body });
}

/** Overlapping ones become one, under the name of the first, or of the longer one where they start together. */
function merged(spans: Named[]): Named[] {
  const kept: Named[] = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start || b.end - a.end)) {
    const last = kept.at(-1);
    if (last !== undefined && span.start < last.end) last.end = Math.max(last.end, span.end);
    else kept.push({ ...span });
  }
  return kept;
}
