// The page begins here: who is signed in, then the screen that the address names.
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { offeredKey, openSession, session, wasSignedIn } from './core/session.ts';
import './parts/colours.ts';
import 'uplot/dist/uPlot.min.css';
import { Shell } from './parts/shell.tsx';
import { warmEvents } from './screens/events.tsx';
import { Offered, SignIn } from './screens/sign-in.tsx';

function App() {
  useEffect(() => void openSession(), []);
  if (offeredKey.value !== undefined) return <Offered offered={offeredKey.value} />;
  if (session.value === undefined) return <p class="quiet waiting">Loading …</p>;
  return session.value === null ? <SignIn /> : <Shell />;
}

if (wasSignedIn() && !location.hash.startsWith('#key=')) warmEvents();
render(<App />, document.getElementById('app')!);
