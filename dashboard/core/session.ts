// Who is signed in. A key is exchanged for a cookie that no script can read; the key is kept nowhere.
import { computed, effect, signal } from '@preact/signals';
import type { Permission } from '../../schemas/closed-sets.ts';
import { type ApiError, call, signedIn, whenSignedOut } from './api.ts';
import { client } from './queries.ts';
import type { SignedIn } from './types.ts';

/** undefined: not known yet. null: signed out. */
export const session = signal<SignedIn | null | undefined>(undefined);
export const sessionError = signal<ApiError | undefined>(undefined);

/**
 * Whether a person was signed in when the page was last open: then it begins to read before it knows that they still
 * are.
 */
const HINT = 'gatehouse-signed-in';
export function wasSignedIn(): boolean {
  return localStorage.getItem(HINT) !== null;
}
effect(() => {
  if (session.value === undefined) return;
  if (session.value === null) localStorage.removeItem(HINT);
  else localStorage.setItem(HINT, '1');
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

/** A key in the fragment (`#key=…`) signs in, and is wiped from the address at once. */
export async function openSession(): Promise<void> {
  sessionError.value = undefined;
  const key = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (key !== undefined) {
    history.replaceState(null, '', location.pathname + location.search);
    try {
      await signIn(decodeURIComponent(key));
      return;
    } catch (error) {
      sessionError.value = error as ApiError;
      session.value = null;
      return;
    }
  }
  try {
    const { value } = await call<SignedIn>('GET', 'v1/session');
    session.value ??= value;
  } catch (error) {
    if (session.value !== undefined) return; // a person has signed in meanwhile
    if ((error as ApiError).status !== 401) sessionError.value = error as ApiError;
    session.value = null;
  }
}

/** Throws ApiError. */
export async function signIn(key: string): Promise<void> {
  const { value } = await call<SignedIn>('POST', 'v1/session', { body: { key: key.trim() } });
  signedIn();
  sessionError.value = undefined;
  client.clear();
  session.value = value;
}

/** The link that `npm start` prints, opened where the page is open already. */
addEventListener('hashchange', () => {
  if (location.hash.startsWith('#key=')) void openSession();
});

export async function signOut(): Promise<void> {
  await call('DELETE', 'v1/session');
  session.value = null;
  client.clear();
}
