// A trace as the list of its events, with the gaps of time between them and a call beside its result.
import { useMemo } from 'preact/hooks';
import type { List } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { spanText } from '../core/time.ts';
import type { EventRow } from '../core/types.ts';
import { Outcome } from './buttons.tsx';
import { useKeys } from './keys.ts';
import { Cut } from './literal.tsx';
import { NARROW_ROW_PX, narrow } from './side.tsx';
import { VirtualRows } from './virtual-rows.tsx';

const ROW_PX = 40;

export function TraceList({ list, open }: { list: List<EventRow>; open: number }) {
  const { params } = place.value;
  const pairs = useMemo(() => pairsOf(list.items), [list.items]);
  const show = (index: number) => {
    const event = list.items[index];
    if (event !== undefined) setParams({ event: event.id, of: event.agent_id }, { replace: params.has('event') });
  };
  useKeys({
    j: { does: 'Next event', run: () => show(open + 1) },
    k: { does: 'Previous event', run: () => show(Math.max(0, open - 1)) },
  });
  return (
    <VirtualRows
      label="Events of the trace, in order"
      count={list.items.length}
      rowPx={narrow.value ? NARROW_ROW_PX : ROW_PX}
      {...(open >= 0 ? { showIndex: open } : {})}
      onEnd={list.more}
      row={(index) => {
        const event = list.items[index]!;
        const before = list.items[index - 1];
        const gap = before === undefined ? 0 : Date.parse(event.timestamp) - Date.parse(before.timestamp);
        const pair = pairs.get(index);
        const next = new URLSearchParams(params);
        next.set('event', event.id);
        next.set('of', event.agent_id);
        return (
          <a
            class={`step-line ${index === open ? 'open' : ''}`}
            href={hrefOf('trace', next)}
            aria-current={index === open ? 'true' : undefined}
          >
            <span class="gap">{before === undefined ? '' : `+${spanText(gap)}`}</span>
            <span class="type">{event.type}</span>
            <span class="pair">
              {pair === undefined ? '' : pair < index ? `↑ result of ${pair + 1}` : `↓ result in ${pair + 1}`}
            </span>
            <Outcome outcome={event.policy_result.outcome} />
            <Cut text={`${index + 1}. ${event.summary}`} />
          </a>
        );
      }}
    />
  );
}

/** Events that name the same call: the first with the last of them. */
export function pairsOf(events: readonly EventRow[]): Map<number, number> {
  const first = new Map<string, number>();
  const pairs = new Map<number, number>();
  for (const [i, { payload_preview: preview = '' }] of events.entries()) {
    const call = /"(?:tool_call_id|call_id|tool_use_id)":\s*"([^"]{1,200})"/.exec(preview)?.[1];
    if (call === undefined) continue;
    const begun = first.get(call);
    if (begun === undefined) first.set(call, i);
    else {
      pairs.set(begun, i);
      pairs.set(i, begun);
    }
  }
  return pairs;
}
