// Switches notifications of this browser on and off (core/notify.ts), or says why they cannot be.
import { useState } from 'preact/hooks';
import { hindrance, notifies, switchOff, switchOn } from '../core/notify.ts';

export function NotifyButton() {
  const [why, setWhy] = useState(hindrance());
  const turn = async () => {
    if (notifies.value) switchOff();
    else setWhy(await switchOn());
  };
  return (
    <>
      <button type="button" aria-pressed={notifies.value} onClick={() => void turn()}>
        Notify me in this browser
      </button>
      {why !== undefined && (
        <span class="quiet" role="status">
          {why}
        </span>
      )}
    </>
  );
}
