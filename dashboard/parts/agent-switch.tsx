// The switch that stops an agent, which says first what it does.
import { call } from '../core/api.ts';
import { changed } from '../core/queries.ts';
import type { Agent } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Dialog } from './dialog.tsx';
import { Literal } from './literal.tsx';

type Switched = Pick<Agent, 'id' | 'name' | 'status'>;

export function AgentSwitch({ agent, onClose }: { agent: Switched; onClose: () => void }) {
  const isOn = agent.status === 'active';
  return (
    <Dialog
      title={
        <>
          Switch <Literal text={agent.name} /> {isOn ? 'off' : 'on'}
        </>
      }
      action={isOn ? 'Switch off' : 'Switch on'}
      danger={isOn}
      onClose={onClose}
      onAct={async () => {
        await call('PATCH', `v1/agents/${agent.id}`, { body: { status: isOn ? 'inactive' : 'active' } });
        announce(
          <>
            <Literal text={agent.name} /> is switched {isOn ? 'off' : 'on'}.
          </>,
        );
        changed('v1/agents', 'v1/overview');
      }}
    >
      {isOn ? (
        <ul>
          <li>From the next second on, every event of this agent is answered as blocked, on every process.</li>
          <li>Its events are still recorded, redacted as its policies ask.</li>
          <li>What waits for approval will be blocked, whatever is decided and whatever its time-out says.</li>
          <li>Nothing is deleted. Switching it on again undoes this for events that come then.</li>
        </ul>
      ) : (
        <p>From the next second on, its events are judged by the policies again.</p>
      )}
    </Dialog>
  );
}
