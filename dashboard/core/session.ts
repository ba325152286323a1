// Who is signed in. A key is exchanged for a cookie that no script can read; the key is kept nowhere.
// Invariant: a person is signed in, or signed in to another account, only by saying so here. A page that was drawn for
// a session acts in no other: where that one has ended, or another tab has signed in again, it stands still until
// a person signs in over it, and goes on as it was where the new session is of the same account and may as much.
import { batch, computed, effect, signal } from '@preact/signals';
import type { Permission } from '../../schemas/closed-sets.ts';
import { ApiError, call, goBy, signedIn, whenSignedOut } from './api.ts';
import { client, standStill } from './queries.ts';
import type { SignedIn } from './types.ts';
import { isWritten, mayForget } from './unsaved.ts';

/** undefined: not known yet. null: signed out. */
export const session = signal<SignedIn | null | undefined>(undefined);
export const sessionError = signal<ApiError | undefined>(undefined);
/** `session` is over, or is not the browser's any more. `by`: who has signed in in another tab. */
export const ended = signal<{ by?: SignedIn } | undefined>(undefined);
/** Another number: what was drawn before is not for who is signed in now. */
export const view = signal(0);

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

whenSignedOut(() => void end());

async function end(): Promise<void> {
  const mine = session.value;
  if (mine === undefined || mine === null) return;
  if (localStorage.getItem(KEPT) === mine.id) localStorage.removeItem(KEPT);
  if (ended.value === undefined) {
    ended.value = {};
    standStill(true);
  }
  const other = await keptSession();
  if (other === null || session.value !== mine || ended.value === undefined) return;
  // The same key: nothing changes for who is at this tab.
  if (other.key_id === mine.key_id && covers(other)) enter(other);
  else ended.value = { by: other };
}

/** May all that the session of this page might, in its account. */
function covers(next: SignedIn): boolean {
  const before = session.value;
  return (
    before !== null &&
    before !== undefined &&
    next.account_id === before.account_id &&
    next.agent_id === before.agent_id &&
    before.permissions.every((permission) => next.permissions.includes(permission)) &&
    (before.scope !== 'admin' || next.scope === 'admin')
  );
}

/** Goes on as this one. */
function enter(next: SignedIn): void {
  const goesOn = covers(next);
  signedIn();
  batch(() => {
    sessionError.value = undefined;
    offeredKey.value = undefined;
    ended.value = undefined;
    if (!goesOn) {
      client.clear();
      view.value++;
    }
    session.value = next;
  });
  standStill(false);
}

/** False: a person keeps what they wrote, and does not go there. */
function mayGoTo(next: SignedIn): boolean {
  return covers(next) || mayForget(`It cannot be saved with the key “${next.key_label}” of ${next.account_name}.`);
}

/** Goes on as who has signed in in another tab. */
export function follow(next: SignedIn): void {
  if (mayGoTo(next)) enter(next);
}

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
  if (key !== undefined) history.replaceState(history.state, '', location.pathname + location.search);
  // What is asked already is answered first: another link must not take its place under a hand.
  if (offeredKey.value !== undefined) return;
  const whose = key === undefined ? undefined : await whoseIs(key);
  const mine = session.value ?? (await whoIsSignedIn());
  batch(() => {
    session.value ??= mine; // a person may have signed in meanwhile
    if (key === undefined || whose === undefined || offeredKey.value !== undefined) return;
    const instead = ended.value === undefined ? (session.value ?? null) : null;
    if (whose instanceof ApiError && instead === null) sessionError.value = whose;
    else if (whose instanceof ApiError || whose.account_id !== instead?.account_id)
      offeredKey.value = { key, whose, instead };
  });
}

async function whoIsSignedIn(): Promise<SignedIn | null> {
  goBy(localStorage.getItem(KEPT) ?? '');
  return keptSession();
}

/** Whose session the browser has, where that is the one that a page of ours has signed in to last. */
async function keptSession(): Promise<SignedIn | null> {
  const id = localStorage.getItem(KEPT);
  if (id === null) return null;
  try {
    return (await call<SignedIn>('GET', 'v1/session', { headers: { 'Gatehouse-Session': id } })).value;
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
export async function signIn(typed: string): Promise<void> {
  const key = typed.trim();
  // Whose it is, before anything is lost by it.
  if (isWritten() && session.value) {
    const { value } = await call<SignedIn>('GET', 'v1/session', { key });
    if (!mayGoTo(value)) return;
  }
  enter((await call<SignedIn>('POST', 'v1/session', { body: { key } })).value);
}

/** The link that `npm start` prints, opened where the page is open already. */
addEventListener('hashchange', () => {
  if (location.hash.startsWith('#key=')) void openSession();
});

/** Another tab has signed in, or out. */
addEventListener('storage', ({ key, oldValue, newValue }) => {
  const id = session.value?.id;
  if (key !== KEPT || newValue === id || (newValue === null && oldValue !== id)) return;
  if (session.value === null) void openSession();
  else void end();
});

/** Rejects with ApiError. */
export async function signOut(): Promise<void> {
  if (!mayForget('You sign out.')) return;
  await call('DELETE', 'v1/session');
  session.value = null;
  view.value++;
  client.clear();
}
