// Rows of events, as lists of events and traces show them: one height, nothing that reaches for the payload.
import { readablePreview } from '../core/tokens.ts';
import type { EventRow } from '../core/types.ts';
import { Outcome, Time } from './buttons.tsx';
import { Cut } from './literal.tsx';
import { NARROW_ROW_PX, narrow } from './side.tsx';

export function eventRowPx(): number {
  return narrow.value ? NARROW_ROW_PX : 34;
}

export type EventLineProps = { event: EventRow; href: string; agentName: string; isOpen: boolean };

/** A blocked one carries a yellow flag. */
export function EventLine({ event, href, agentName, isOpen }: EventLineProps) {
  const { policy_result: result } = event;
  return (
    <a class={`event-line ${isOpen ? 'open' : ''}`} href={href} aria-current={isOpen ? 'true' : undefined}>
      <span class="flag">{result.outcome === 'blocked' && <Flag />}</span>
      <Time at={event.timestamp} millis />
      <span class="type">{event.type}</span>
      <Cut text={agentName} />
      <Outcome outcome={result.outcome} />
      <Cut preview text={readablePreview(event.payload_preview ?? '')} />
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
