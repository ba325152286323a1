// Saved views of the account: lists with their filters under a name. They are of all agents, so a key that is bound to
// one has none.

import { type Read, useRead } from './queries.ts';
import { hrefOf } from './router.ts';
import { isBound } from './session.ts';
import type { Page, SavedView } from './types.ts';

/** All that an account may have. `isAsked`: is anything to be read? */
export function useViews(isAsked = true): Read<Page<SavedView>> {
  return useRead<Page<SavedView>>(isAsked && !isBound() ? 'v1/views?limit=100' : undefined, { behind: true });
}

export function hrefOfView({ screen, query }: SavedView): string {
  return hrefOf(screen, new URLSearchParams(query));
}
