// Rows of events, as lists of events and traces show them: one height, nothing that reaches for the payload.
import type { EventRow } from '../core/types.ts';
import { Outcome, Time } from './buttons.tsx';

export const EVENT_ROW_PX = 34;

export type EventLineProps = { event: EventRow; href: string; agentName: string; isOpen: boolean };

/** A blocked one carries a yellow flag. */
export function EventLine({ event, href, agentName, isOpen }: EventLineProps) {
  const { policy_result: result } = event;
  return (
    <a class={`event-line ${isOpen ? 'open' : ''}`} href={href} aria-current={isOpen ? 'true' : undefined}>
      <span class="flag">{result.outcome === 'blocked' && <Flag />}</span>
      <Time at={event.timestamp} millis />
      <span class="type">{event.type}</span>
      <span class="cut" title={agentName}>
        {agentName}
      </span>
      <Outcome outcome={result.outcome} />
      <span class="cut preview">{event.payload_preview ?? ''}</span>
    </a>
  );
}

function Flag() {
  return (
    <svg viewBox="0 0 16 16" width="14" height="14" role="img" aria-label="blocked">
      <path d="M3 1v14" stroke="currentColor" stroke-width="1.6" />
      <path d="M3.8 2h9l-2.4 3L12.800 8h-9z" fill="#f5c400" stroke="#8a6d00" stroke-width=".7" />
    </svg>
  );
}
