// Whether this browser notifies of what waits for a person: not until someone presses the button and the browser lets
// it. The wish is kept in this browser; of what, and by which tab, is in notifier.ts, which is loaded then.
// Failure: a browser that cannot, or may not, says so in a sentence, and nothing is kept.
import { signal } from '@preact/signals';

const KEPT = 'gatehouse-notify';

/** It was wished here, and the browser allows it. */
export const notifies = signal(isWished());

/** Why it cannot be switched on; undefined: it can. Browsers keep it from pages that anyone on the way may change. */
export function hindrance(): string | undefined {
  if (!isSecureContext) return 'Browsers notify only of pages over HTTPS, or of this machine.';
  if (!('Notification' in window)) return 'This browser has no notifications.';
  if (Notification.permission === 'denied')
    return 'The browser denies notifications of this page. Allow them in its settings for this site, and try again.';
  return undefined;
}

function isWished(): boolean {
  return localStorage.getItem(KEPT) === '1' && hindrance() === undefined && Notification.permission === 'granted';
}

/** Asks the browser for permission, so it runs in a click. Answers why it is not on; undefined: it is. */
export async function switchOn(): Promise<string | undefined> {
  if (hindrance() === undefined) await Notification.requestPermission();
  const why = hindrance() ?? (Notification.permission === 'granted' ? undefined : 'You have not allowed it.');
  if (why !== undefined) return why;
  try {
    new Notification('Gatehouse notifies you here', { body: 'This is how it looks.', tag: KEPT });
  } catch {
    return 'This browser shows no notifications of a page.'; // on phones some have them of service workers alone
  }
  localStorage.setItem(KEPT, '1');
  notifies.value = true;
  return undefined;
}

export function switchOff(): void {
  localStorage.removeItem(KEPT);
  notifies.value = false;
}

/** It was switched in another tab. */
addEventListener('storage', ({ key }) => {
  if (key === KEPT || key === null) notifies.value = isWished();
});
