// What is where no event has ever come: how to send the first. It comes when it is needed.
import { Loaded } from './loaded.tsx';

export function NoEvents() {
  return <Loaded load={loadStart} />;
}

async function loadStart() {
  return (await import('../screens/start.tsx')).Start;
}
