// What the policies in force would say of an event, each of them: which matched where, and what the others lack.
import { call } from '../core/api.ts';
import { jsonWith } from '../core/json.ts';
import type { Evaluated } from '../core/types.ts';
import { Dialog } from './dialog.tsx';
import { TryPolicy } from './try-policy.tsx';

export function TryInForce({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Try the policies in force on an event" onClose={onClose}>
      <p>Nothing is recorded, and no counter moves.</p>
      <TryPolicy
        tried={undefined}
        ask={async (event) =>
          (await call<Evaluated>('POST', 'v1/policies/evaluate', { rawBody: jsonWith({}, { event }) })).value
        }
      />
    </Dialog>
  );
}
