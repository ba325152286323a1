// One policy, or one of its revisions, as it is read and sent: its conditions stay text, so that every number comes back
// as it was written.
import { jsonWith, POLICY_TEXTS } from './json.ts';
import { type List, type Read, useList, useRead } from './queries.ts';
import type { PolicyRevision, WholePolicy } from './types.ts';

/** undefined: nothing is asked for. */
export function usePolicy(id: string | undefined): Read<WholePolicy> {
  return useRead<WholePolicy>(id === undefined ? undefined : pathOf(id), { kept: POLICY_TEXTS });
}

export function useRevision(id: string | undefined, revision: number | undefined): Read<PolicyRevision> {
  const path = id === undefined || revision === undefined ? undefined : `${pathOf(id)}/revisions/${revision}`;
  return useRead<PolicyRevision>(path, { kept: POLICY_TEXTS });
}

/** Newest first. */
export function useRevisions(id: string): List<PolicyRevision> {
  return useList<PolicyRevision>(`${pathOf(id)}/revisions`, { kept: POLICY_TEXTS });
}

export function pathOf(id: string): string {
  return `v1/policies/${encodeURIComponent(id)}`;
}

/** The fields that differ in each revision of a policy and say nothing about what it does. */
const OF_REVISION = ['id', 'revision', 'created_at', 'updated_at', 'applied_revision'];

/** The text by which two versions of a policy are compared. `without`: further fields that do not count. */
export function textOfPolicy({ conditions, ...fields }: WholePolicy, without: readonly string[] = []): string {
  const told = Object.entries(fields).filter(([name]) => !OF_REVISION.includes(name) && !without.includes(name));
  return jsonWith(Object.fromEntries(told), { conditions: conditions.text });
}
