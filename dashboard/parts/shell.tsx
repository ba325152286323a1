// What is around every screen: navigation, the zone that times are in, the palette and the list of keys.
import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useLive } from '../core/live.ts';
import { notifies } from '../core/notify.ts';
import { changed, useRead } from '../core/queries.ts';
import { go, hrefOf, onLinkClick, place } from '../core/router.ts';
import { ended, isBound, session } from '../core/session.ts';
import { switchZone, zoneName } from '../core/time.ts';
import type { Approval, Page } from '../core/types.ts';
import { visible } from '../core/visible.ts';
import { SCREENS, type Screen } from '../screens/routes.ts';
import { Announcements, announce } from './announce.tsx';
import { Dialog } from './dialog.tsx';
import { ScreenIcon } from './icon.tsx';
import { inForce, useKeys } from './keys.ts';
import { Literal } from './literal.tsx';
import { Loaded } from './loaded.tsx';
import { Palette } from './palette.tsx';
import { Empty } from './states.tsx';

type Overlay = { kind: 'palette' | 'keys'; id: number };
const overlay = signal<Overlay | undefined>(undefined);

let opened = 0;
function openOverlay(kind: Overlay['kind']): void {
  if (ended.value !== undefined) return; // it would lie over the sign-in, unseen
  overlay.value = { kind, id: ++opened };
}

/** A dialog reports that it was closed a moment after it is gone; by then another one may have been opened by key. */
function closeOverlay({ id }: Overlay): void {
  if (overlay.value?.id === id) overlay.value = undefined;
}

export function Shell() {
  const { screen } = place.value;
  const found = SCREENS.find(({ path }) => path === screen);
  const waiting = useWaiting();
  const open = overlay.value;
  useTitle(found, waiting);
  useNotifications();
  useShortcuts();
  const links = useRef<HTMLUListElement>(null);
  useEffect(() => {
    scrollTo(0, 0); // in one column the page scrolls, and what was read of the screen before says nothing of this one
    const current = links.current?.querySelector<HTMLElement>('[aria-current]');
    if (current)
      links.current!.scrollLeft = current.offsetLeft - (links.current!.clientWidth - current.offsetWidth) / 2;
  }, [screen]);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: only clicks on links are handled, and Enter on a link is a click
    // biome-ignore lint/a11y/noStaticElementInteractions: see above
    <div class="shell" onClick={onLinkClick}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={hrefOf('overview')}>
          Gatehouse
        </a>
        <nav aria-label="Screens">
          <ul ref={links}>
            {SCREENS.filter(({ listed }) => listed).map(({ path, title }) => (
              <li key={path}>
                <a
                  href={hrefOf(path)}
                  aria-current={path === screen || `${path.slice(0, -1)}` === screen ? 'page' : undefined}
                >
                  <ScreenIcon path={path} />
                  {title}
                  {path === 'approvals' && waiting > 0 && <span class="count">{waiting}</span>}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <button type="button" onClick={() => openOverlay('palette')}>
          Go to … <kbd>Ctrl K</kbd>
        </button>
        <button type="button" title="Switch between local time and UTC" onClick={switchZone}>
          {zoneName()}
        </button>
        <span class="quiet account cut" title={visible(session.value?.key_label ?? '')}>
          <Literal text={session.value?.account_name ?? ''} />
        </span>
      </header>
      <main id="main" tabIndex={-1}>
        {found === undefined ? (
          <Empty title="No such screen">
            <a href={hrefOf('overview')}>Overview</a>
          </Empty>
        ) : (
          <OfScreen key={found.path} screen={found} />
        )}
      </main>
      <Announcements />
      {open?.kind === 'palette' && <Palette key={open.id} onClose={() => closeOverlay(open)} />}
      {open?.kind === 'keys' && <Keys key={open.id} onClose={() => closeOverlay(open)} />}
    </div>
  );
}

function OfScreen({ screen }: { screen: Screen }) {
  if (screen.account && isBound())
    return (
      <Empty title="Not for this key">
        The key that you signed in with is bound to one agent; this concerns the whole account.
      </Empty>
    );
  return <Loaded load={screen.load} />;
}

/** Approvals that wait, for the badge of the tab. */
function useWaiting(): number {
  const path = 'v1/approvals?status=pending&limit=1';
  const { value } = useRead<Page<Approval>>(path, { everyMs: 30_000, behind: true });
  useLive('topics=approvals', { onRow: () => changed(path), onGap: () => changed(path) });
  return value?.total ?? 0;
}

function useTitle(screen: Screen | undefined, waiting: number): void {
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ''}${screen?.title ?? 'Gatehouse'} · Gatehouse`;
  }, [screen, waiting]);
}

/** Where a person wishes it, the browser notifies of what waits. */
function useNotifications(): void {
  const isOn = notifies.value;
  const of = ended.value === undefined ? session.value?.id : undefined;
  useEffect(() => {
    if (!isOn || of === undefined || of === null) return undefined;
    let stop: (() => void) | undefined;
    let isLeft = false;
    import('../core/notifier.ts').then(
      ({ startNotifying }) => {
        if (!isLeft) stop = startNotifying(of);
      },
      () => announce('Notifications could not be loaded. Load the page again.'),
    );
    return () => {
      isLeft = true;
      stop?.();
    };
  }, [isOn, of]);
}

function useShortcuts(): void {
  /** `g` was pressed, and the next key says where to go. */
  const isGo = useRef(false);
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        openOverlay('palette');
      }
      if (!isGo.current) return;
      isGo.current = false;
      const screen = SCREENS.find(({ key }) => key === event.key);
      if (screen === undefined) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      go(hrefOf(screen.path));
    };
    // before the keys of a screen, and from the same moment on: the second key may follow at once
    addEventListener('keydown', onKey, { capture: true });
    return () => removeEventListener('keydown', onKey, { capture: true });
  }, []);
  useKeys({
    '?': { does: 'List of keys', run: () => openOverlay('keys') },
    g: {
      does: 'Go to a screen: g, then its letter',
      run: () => {
        isGo.current = true;
      },
    },
    '/': { does: 'Search', run: () => document.querySelector<HTMLInputElement>('main input[type=search]')?.focus() },
  });
}

function Keys({ onClose }: { onClose: () => void }) {
  const tables = inForce.value.flatMap((table) => Object.entries(table));
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="facts">
        {[
          ['Ctrl K', 'Go to a screen, a view, an agent, a policy, or an id'],
          ...tables.map(([key, { does }]) => [key, does]),
          ...SCREENS.filter(({ key }) => key !== undefined).map(({ key, title }) => [`g ${key}`, title]),
        ].map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
