// A trace as a conversation: its events in the order of time, each as what was said (conversation-turn.tsx). The
// skeleton comes from the list of the trace; bodies are read of those that are on screen.
// Keys go through it: j and k, Enter or o for the event beside it, f for what is folded in it, r for its payload.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ConversationReader } from '../core/conversation-reader.ts';
import type { List } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { spanText } from '../core/time.ts';
import type { EventRow } from '../core/types.ts';
import { Turn } from './conversation-turn.tsx';
import { useKeys } from './keys.ts';
import { pairsOf } from './trace-list.tsx';
import { VirtualRows } from './virtual-rows.tsx';

/** Before it is known how high it is. */
const TURN_PX = 110;

type Current = { at: number; byKey: boolean };

export function ConversationView({ list, open }: { list: List<EventRow>; open: number }) {
  const { params } = place.value;
  const reader = useMemo(() => new ConversationReader(), []);
  useEffect(() => () => reader.close(), []);
  const pairs = useMemo(() => pairsOf(list.items), [list.items]);
  const [{ at, byKey }, setCurrent] = useState<Current>({ at: Math.max(0, open), byKey: false });
  const [raw, setRaw] = useState<number>();
  useEffect(() => {
    if (open >= 0) setCurrent({ at: open, byKey: false });
  }, [open]);
  const show = (index: number) => {
    const event = list.items[index];
    if (event !== undefined) setParams({ event: event.id, of: event.agent_id }, { replace: params.has('event') });
  };
  const go = (to: number) => {
    // one past what is read, where there is more: it is gone to as soon as it is there
    const end = list.hasMore ? list.items.length : list.items.length - 1;
    const next = Math.max(0, Math.min(end, to));
    setCurrent({ at: next, byKey: true });
    if (params.has('event')) show(next);
  };
  const openOrClose = () => (open === at ? setParams({ event: undefined, of: undefined }) : show(at));
  useKeys({
    j: { does: 'Next event', run: () => go(at + 1) },
    k: { does: 'Previous event', run: () => go(at - 1) },
    o: { does: 'Open the event, or close it', run: openOrClose },
    Enter: { does: 'Open the event, or close it', run: openOrClose },
    f: { does: 'Unfold what is in the event, or fold it', run: () => unfold(at) },
    r: { does: 'The payload of the event, or what it says', run: () => setRaw(raw === at ? undefined : at) },
  });
  return (
    <VirtualRows
      label="Conversation"
      count={list.items.length}
      rowPx={TURN_PX}
      wraps
      {...(at > 0 || open >= 0 ? { showIndex: at } : {})}
      onEnd={list.more}
      row={(index) => {
        const event = list.items[index]!;
        const next = new URLSearchParams(params);
        next.set('event', event.id);
        next.set('of', event.agent_id);
        return (
          <Turn
            key={event.id}
            event={event}
            place={index}
            since={sinceOf(list.items[index - 1], event)}
            pair={pairText(pairs.get(index), index)}
            href={hrefOf('trace', next)}
            isCurrent={index === at}
            hasFocus={byKey}
            onFocused={() => setCurrent((now) => ({ ...now, byKey: false }))}
            isRaw={index === raw}
            onRaw={() => setRaw(raw === index ? undefined : index)}
            reader={reader}
          />
        );
      }}
    />
  );
}

function sinceOf(before: EventRow | undefined, event: EventRow): string {
  return before === undefined ? '' : `+${spanText(Date.parse(event.timestamp) - Date.parse(before.timestamp))}`;
}

function pairText(pair: number | undefined, index: number): string {
  if (pair === undefined) return '';
  return pair < index ? `result of ${pair + 1}` : `result in ${pair + 1}`;
}

/** All of it, or nothing of it where all is unfolded. */
function unfold(at: number): void {
  const found = document.querySelectorAll<HTMLDetailsElement>(`[data-index="${at}"] .turn details`);
  const isOpen = [...found].every(({ open }) => open);
  for (const one of found) one.open = !isOpen;
}
