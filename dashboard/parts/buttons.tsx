// Small controls that every screen uses.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { nowMs } from '../core/clock.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { agoText, exactText, timeText, zone } from '../core/time.ts';
import { announce } from './announce.tsx';

/** Where the browser does not let pages copy (plain HTTP to another machine) the text is shown, selected. */
export function CopyButton({ text, label }: { text: string | (() => string); label: string }) {
  const [done, setDone] = useState(false);
  const [byHand, setByHand] = useState<string>();
  const copy = async () => {
    const what = typeof text === 'string' ? text : text();
    try {
      await navigator.clipboard.writeText(what);
      setByHand(undefined);
      setDone(true);
      announce('Copied.');
      setTimeout(() => setDone(false), 1_500);
    } catch {
      setByHand(what);
    }
  };
  return (
    <>
      <button type="button" onClick={copy}>
        {done ? 'Copied' : label}
      </button>
      {byHand !== undefined && <ByHand key={byHand} text={byHand} onClose={() => setByHand(undefined)} />}
    </>
  );
}

function ByHand({ text, onClose }: { text: string; onClose: () => void }) {
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  return (
    <span class="by-hand">
      <label for={id}>The browser does not let this page copy. Copy it by hand (Ctrl C):</label>
      <textarea id={id} ref={field} readOnly rows={3} spellcheck={false} value={text} />
      <button type="button" onClick={onClose}>
        Done
      </button>
    </span>
  );
}

/** Whether what comes in is followed (`live` of the address), and whether it can be at this moment. */
export function LiveButton({ isAway }: { isAway: boolean }) {
  const isLive = place.value.params.has('live');
  return (
    <>
      <button type="button" aria-pressed={isLive} onClick={() => setParams({ live: isLive ? undefined : '1' })}>
        Live
      </button>
      <LiveState isAway={isAway} />
    </>
  );
}

export function LiveState({ isAway }: { isAway: boolean }) {
  return (
    <span class="quiet" role="status">
      {isAway && 'Live updates are away: trying again …'}
    </span>
  );
}

/** A time in the zone that is switched to; in full, with the zone and its offset, where the pointer rests. */
export function Time({ at, ago = false, millis = false }: { at: string; ago?: boolean; millis?: boolean }) {
  zone.value; // drawn again when it is switched
  return (
    <time dateTime={at} title={exactText(at)}>
      {ago ? <Ago at={at} /> : timeText(at, { millis })}
    </time>
  );
}

function Ago({ at }: { at: string }) {
  useNow(AGO_MS);
  return <>{agoText(at)}</>;
}

/** So often a text like "2 min ago" is written again: it is never off by more. */
const AGO_MS = 10_000;

export function EventLink({ agentId, id, children }: { agentId: string; id: string; children?: ComponentChildren }) {
  return <a href={hrefOf('event', { agent_id: agentId, id })}>{children ?? id}</a>;
}

export function Outcome({ outcome }: { outcome: string }) {
  return <span class={`badge ${outcome}`}>{outcome}</span>;
}

export function Severity({ severity }: { severity: string | null }) {
  return severity === null ? null : <span class={`badge sev-${severity}`}>{severity}</span>;
}

/** The time by the service's clock, updated every second while it is shown. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(nowMs());
  useEffect(() => {
    const timer = setInterval(() => setNow(nowMs()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
