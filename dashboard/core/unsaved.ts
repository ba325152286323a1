// What a person has written and not sent yet: what would take it away asks first.
// Invariant: text is lost by a decision alone: by closing a form, by going on to another place (also back, also by a
// link), by closing or reloading the tab, by signing in to where it cannot be sent.
import { useLayoutEffect, useMemo } from 'preact/hooks';

/** Says of an open form whether there is something in it. */
type Written = { is: boolean };
const forms = new Set<Written>();

/** Texts that stay while a person goes elsewhere in this tab, by what they are for. Never a secret. */
const kept = new Map<string, string>();

export function keptText(name: string): string {
  return kept.get(name) ?? '';
}

export function keepText(name: string, text: string): void {
  if (text === '') kept.delete(name);
  else kept.set(name, text);
}

export function useWritten(): Written {
  const written = useMemo<Written>(() => ({ is: false }), []);
  useLayoutEffect(() => {
    forms.add(written);
    return () => void forms.delete(written);
  }, []);
  return written;
}

export function isWritten(): boolean {
  return kept.size > 0 || [...forms].some(({ is }) => is);
}

/** Before forms are taken away: these, or all. False: the person goes on writing. */
export function mayLeave(which: Iterable<Written> = forms): boolean {
  const those = [...which].filter(({ is }) => is);
  if (those.length > 0 && !confirm('What you wrote here is not saved. Leave without it?')) return false;
  for (const form of those) form.is = false;
  return true;
}

/** Before all of it is taken away. `why`: a sentence. */
export function mayForget(why: string): boolean {
  if (isWritten() && !confirm(`${why} What you wrote and did not save is lost then. Go on?`)) return false;
  for (const form of forms) form.is = false;
  kept.clear();
  return true;
}

addEventListener('beforeunload', (event) => {
  if (isWritten()) event.preventDefault();
});
