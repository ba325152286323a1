// Rows of events: when, what kind, what became of it, and what it says in a sentence that the service makes of the
// payload. One height; nothing here reaches for the payload.
import { spanText } from '../core/time.ts';
import type { EventRow } from '../core/types.ts';
import { Outcome, Time } from './buttons.tsx';
import { type Column, ListLine } from './columns.tsx';
import { Cost } from './cost.tsx';
import { Cut } from './literal.tsx';
import { NARROW_ROW_PX, narrow } from './side.tsx';

export function eventRowPx(): number {
  return narrow.value ? NARROW_ROW_PX : 34;
}

type EventLineProps = { event: EventRow; href: string; isOpen: boolean; columns: readonly Column<EventRow>[] };

/** `nameOf`: of an agent, by its id. */
export function eventColumns(nameOf: (id: string) => string): Column<EventRow>[] {
  return [
    {
      ...{ name: 'agent', label: 'Agent', width: 'minmax(90px, 1fr)', isUsual: true },
      cell: (event) => <Cut text={nameOf(event.agent_id)} />,
    },
    {
      ...{ name: 'model', label: 'Model', width: 'minmax(0, 1fr)' },
      cell: (event) => event.model !== undefined && <Cut text={event.model} />,
    },
    {
      ...{ name: 'tokens', label: 'Tokens', width: '100px', isNumber: true },
      cell: (event) => event.tokens_used !== undefined && `${event.tokens_used.toLocaleString('en')} tokens`,
    },
    {
      ...{ name: 'cost', label: 'Cost', width: '100px', isNumber: true },
      cell: ({ cost }) => cost !== undefined && <Cost of={cost} />,
    },
    {
      ...{ name: 'duration', label: 'Duration', width: '80px', isNumber: true },
      cell: ({ duration_ms: duration }) => duration !== undefined && spanText(duration),
    },
    {
      ...{ name: 'trace', label: 'Trace', width: 'minmax(0, 1fr)' },
      cell: (event) => event.trace_id !== undefined && <Cut text={event.trace_id} />,
    },
  ];
}

/** A blocked one carries a yellow flag. */
export function EventLine({ event, href, isOpen, columns }: EventLineProps) {
  const { outcome } = event.policy_result;
  return (
    <ListLine
      row={event}
      href={href}
      isOpen={isOpen}
      columns={columns}
      leadWidths="16px 184px 86px 70px"
      lead={
        <>
          <span class="flag">{outcome === 'blocked' && <Flag />}</span>
          <Time at={event.timestamp} millis />
          <span class="type">{event.type}</span>
          <Outcome outcome={outcome} />
        </>
      }
      said={<Cut text={event.summary} />}
    />
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
