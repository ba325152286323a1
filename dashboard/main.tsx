// The page begins here: who is signed in, then the screen that the address names. Where a person has to sign in again,
// or a link brings a key, what a person was at stays as it is, out of sight.
import { render } from 'preact';
import { useRef } from 'preact/hooks';
import { eventListAtOnce } from './core/event-list.ts';
import { overviewPath } from './core/overview.ts';
import { warmList, warmRead } from './core/queries.ts';
import { ended, offeredKey, openSession, session, view, wasSignedIn } from './core/session.ts';
import './parts/colours.ts';
import 'uplot/dist/uPlot.min.css';
import { place } from './core/router.ts';
import { Shell } from './parts/shell.tsx';
import { SCREENS } from './screens/routes.ts';
import { Offered, SignIn } from './screens/sign-in.tsx';

function App() {
  const shown = useRef(-1);
  const offered = offeredKey.value;
  const isIn = session.value !== undefined && session.value !== null;
  const isCovered = offered !== undefined || ended.value !== undefined;
  if (isIn && !isCovered) shown.current = view.value;
  const isThere = isIn && shown.current === view.value;
  return (
    <>
      {isThere && (
        <div key={view.value} style={{ display: isCovered ? 'none' : 'contents' }}>
          <Shell />
        </div>
      )}
      {offered !== undefined && <Offered offered={offered} isOver={isThere} />}
      {offered === undefined && (session.value === null || ended.value !== undefined) && <SignIn isOver={isThere} />}
      {offered === undefined && session.value === undefined && <p class="quiet waiting">Loading …</p>}
    </>
  );
}

/**
 * Asks for what the first screen shows before the page knows who is signed in: its rows first, for a browser sends six
 * requests at a time, then the screen itself.
 */
function warm(): void {
  const { screen } = place.value;
  if (screen === 'overview') warmRead(overviewPath());
  const list = screen === 'events' ? eventListAtOnce() : undefined;
  if (list !== undefined) warmList(list);
  SCREENS.find(({ path }) => path === screen)
    ?.load()
    .catch(() => undefined); // said where it is drawn
}

if (wasSignedIn() && !location.hash.startsWith('#key=')) warm();
void openSession();
render(<App />, document.getElementById('app')!);
