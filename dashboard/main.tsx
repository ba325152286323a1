// The page begins here: who is signed in, then the screen that the address names. Where a person has to sign in again,
// or a link brings a key, what a person was at stays as it is, out of sight.
import { render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { ended, offeredKey, openSession, session, view, wasSignedIn } from './core/session.ts';
import './parts/colours.ts';
import 'uplot/dist/uPlot.min.css';
import { place } from './core/router.ts';
import { Shell } from './parts/shell.tsx';
import { warmOverview } from './screens/overview.tsx';
import { Offered, SignIn } from './screens/sign-in.tsx';

function App() {
  const shown = useRef(-1);
  useEffect(() => void openSession(), []);
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

/** What the first screen shows is asked for before the page knows who is signed in. */
function warm(): void {
  if (place.value.screen === 'overview') warmOverview();
  if (place.value.screen === 'events') void import('./screens/events.tsx').then(({ warmEvents }) => warmEvents());
}

if (wasSignedIn() && !location.hash.startsWith('#key=')) warm();
render(<App />, document.getElementById('app')!);
