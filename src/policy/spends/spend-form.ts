// What the counters of a budget are named by (between the terms of a policy, kinds/spend-budget.ts, and the counters,
// quotas/spend-store.ts). Pure.
// Invariant: a policy whose unit, scope or window changes, or that is reset, has another form, and so other counters;
// one whose limit changes goes on counting.
import { createHash } from 'node:crypto';
import type { JsonObject } from '../../../schemas/common.ts';
import { remember } from '../../common/maps.ts';
import { type BudgetTerms, scopeText } from '../kinds/spend-budget.ts';
import type { SpendOf, WindowArgument } from '../quotas/spend-store.ts';
import { type BudgetWindow, longestMs, windowStarts } from './budget-window.ts';

/** The hashes of the terms that count for stored settlements. `unit`: the same over windows. */
type SpendForm = { unit: string; form: string };

/** A policy that is reset may keep its terms. */
const forms = new WeakMap<BudgetTerms, SpendForm & { resetAt: string }>();
const SCOPE_CHARACTERS_MAX = 40;
const SHOWN_CHARACTERS_MAX = 100;

/** `resetAt`: when it was last reset. */
export function formOf(terms: BudgetTerms, resetAt = ''): SpendForm {
  let found = forms.get(terms);
  if (found?.resetAt !== resetAt) {
    const unit = hashed(`${terms.limit.unit} ${terms.limit.currency} ${scopeText(terms)}`);
    found = { resetAt, unit, form: hashed(`${unit} ${JSON.stringify(terms.window)} ${resetAt}`) };
    forms.set(terms, found);
  }
  return found;
}

export function spendOf(policyId: string, terms: BudgetTerms, resetAt?: string): SpendOf {
  return { policyId, form: formOf(terms, resetAt).form };
}

/** The part of a key's name for a scope: the ids of agents as they are, text of the payload as a hash. */
export function scopeName(scope: string): string {
  return /^[a-z0-9_]+$/.test(scope) && scope.length <= SCOPE_CHARACTERS_MAX ? scope : hashed(scope);
}

/** As people are shown it: the text of a value without its quotes, cut. */
export function scopeShown({ per }: Pick<BudgetTerms, 'per'>, scope: string): string {
  if (per === 'account') return '';
  if (typeof per === 'string') return cut(scope.replace(/^trace /, ''));
  return cut(scope.startsWith('"') ? (JSON.parse(scope) as string) : scope);
}

function cut(text: string): string {
  return text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
}

/** `atMs`: by our clock; the script takes what holds by Redis's. */
export function windowArgument(window: BudgetWindow, atMs: number): WindowArgument {
  return 'ms' in window ? { ms: window.ms } : { starts: windowStarts(window, atMs) };
}

const DAY_MS = 86_400_000;

/** For how long counters are kept: longer than entries of streams are delivered again. */
export function lifeOf({ window, holdMs }: Pick<BudgetTerms, 'window' | 'holdMs'>): number {
  return longestMs(window) + 2 * holdMs + DAY_MS;
}

/** By which id a prompt and its completion say that they are one call; LiteLLM's do. null: by none. */
export function callOf({ call_id: id }: JsonObject): string | null {
  return typeof id === 'string' ? id : null;
}

/** Hashes of texts that come again: of an agent and its model, of a call's prompt and its completion. */
const known = new Map<string, string>();
const KNOWN_MAX = 1_000;
const KNOWN_CHARACTERS_MAX = 300;

/** 96 bits. */
export function hashed(text: string): string {
  const before = known.get(text);
  if (before !== undefined) return before;
  const hash = createHash('sha256').update(text).digest('base64url').slice(0, 16);
  return text.length > KNOWN_CHARACTERS_MAX ? hash : remember(known, text, hash, KNOWN_MAX);
}
