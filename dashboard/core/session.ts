// Who is signed in. A key is exchanged for a cookie that no script can read; the key is kept nowhere.
// Invariant: a person is signed in, or signed in to another account, only by saying so here.
import { batch, computed, effect, signal } from '@preact/signals';
import type { Permission } from '../../schemas/closed-sets.ts';
import { ApiError, call, goBy, signedIn, whenSignedOut } from './api.ts';
import { client } from './queries.ts';
import type { SignedIn } from './types.ts';

/** undefined: not known yet. null: signed out. */
export const session = signal<SignedIn | null | undefined>(undefined);
export const sessionError = signal<ApiError | undefined>(undefined);

/**
 * The id of the session that a person was signed in to when the page was last open: with it the page begins to read
 * before it knows that they still are, and no cookie that another port or site has written passes for theirs.
 */
const KEPT = 'gatehouse-session';
export function wasSignedIn(): boolean {
  return localStorage.getItem(KEPT) !== null;
}
goBy(localStorage.getItem(KEPT) ?? '');
let known = '';
effect(() => {
  if (session.value === undefined) return;
  const id = session.value?.id ?? '';
  // Another tab may have signed in since: what it keeps is its own.
  if (id !== '') localStorage.setItem(KEPT, id);
  else if (localStorage.getItem(KEPT) === known) localStorage.removeItem(KEPT);
  known = id;
  goBy(id);
});

whenSignedOut(() => {
  if (session.value !== undefined) session.value = null;
});

export const isAdmin = computed(() => session.value?.scope === 'admin');

export function may(permission: Permission): boolean {
  return session.value?.permissions.includes(permission) ?? false;
}

/** A key that is bound to an agent sees that agent alone; what concerns the account is refused to it. */
export function isBound(): boolean {
  return (session.value?.agent_id ?? null) !== null;
}

/**
 * A key that a link has brought. Any page can make such a link, so nothing is done with it before a person has seen
 * whose account it is. `whose`: or why it is of no use. `instead`: who is signed in, and would no longer be.
 */
export type OfferedKey = { key: string; whose: SignedIn | ApiError; instead: SignedIn | null };
export const offeredKey = signal<OfferedKey | undefined>(undefined);

/** Finds out who is signed in, and whose the key is that the address brings along (`#key=…`), which is wiped at once. */
export async function openSession(): Promise<void> {
  sessionError.value = undefined;
  const key = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (key !== undefined) history.replaceState(null, '', location.pathname + location.search);
  const whose = key === undefined ? undefined : await whoseIs(key);
  const mine = session.value ?? (await whoIsSignedIn());
  batch(() => {
    session.value ??= mine; // a person may have signed in meanwhile
    if (key === undefined || whose === undefined) return;
    const instead = session.value ?? null;
    if (whose instanceof ApiError && instead === null) sessionError.value = whose;
    else if (whose instanceof ApiError || whose.account_id !== instead?.account_id)
      offeredKey.value = { key, whose, instead };
  });
}

async function whoIsSignedIn(): Promise<SignedIn | null> {
  const id = localStorage.getItem(KEPT);
  if (id === null) return null;
  goBy(id);
  try {
    return (await call<SignedIn>('GET', 'v1/session')).value;
  } catch (error) {
    if ((error as ApiError).status !== 401) sessionError.value = error as ApiError;
    else if (localStorage.getItem(KEPT) === id) localStorage.removeItem(KEPT);
    return null;
  }
}

async function whoseIs(key: string): Promise<SignedIn | ApiError> {
  if (!KEY.test(key)) return new ApiError(401, 'invalid_token', 'What the link brings is no API key.');
  try {
    return (await call<SignedIn>('GET', 'v1/session', { key })).value;
  } catch (error) {
    return error as ApiError;
  }
}
const KEY = /^[A-Za-z0-9_-]{1,300}$/;

/** Throws ApiError. */
export async function signIn(key: string): Promise<void> {
  const { value } = await call<SignedIn>('POST', 'v1/session', { body: { key: key.trim() } });
  signedIn();
  client.clear();
  batch(() => {
    sessionError.value = undefined;
    offeredKey.value = undefined;
    session.value = value;
  });
}

/** The link that `npm start` prints, opened where the page is open already. */
addEventListener('hashchange', () => {
  if (location.hash.startsWith('#key=')) void openSession();
});

/** Another tab has signed in. One that goes by a session of its own hears of it by its next call. */
addEventListener('storage', ({ key, newValue }) => {
  if (key === KEPT && newValue !== null && session.value === null) void openSession();
});

export async function signOut(): Promise<void> {
  await call('DELETE', 'v1/session');
  session.value = null;
  client.clear();
}
