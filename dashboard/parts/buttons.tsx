// Small controls that every screen uses.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { hrefOf } from '../core/router.ts';
import { agoText, timeText, zone, zoneName } from '../core/time.ts';
import { announce } from './announce.tsx';

export function CopyButton({ text, label }: { text: string | (() => string); label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
      setDone(true);
      announce('Copied.');
      setTimeout(() => setDone(false), 1_500);
    } catch {
      announce('The browser does not let pages copy here: select the text and copy it.');
    }
  };
  return (
    <button type="button" onClick={copy}>
      {done ? 'Copied' : label}
    </button>
  );
}

/** A time in the zone that is switched to; in full, with the zone, where the pointer rests. */
export function Time({ at, ago = false, millis = false }: { at: string; ago?: boolean; millis?: boolean }) {
  zone.value; // drawn again when it is switched
  const text = timeText(at, { millis });
  return (
    <time dateTime={at} title={`${timeText(at)} ${zoneName()}`}>
      {ago ? agoText(at) : text}
    </time>
  );
}

export function EventLink({ agentId, id, children }: { agentId: string; id: string; children?: ComponentChildren }) {
  return <a href={hrefOf('event', { agent_id: agentId, id })}>{children ?? id}</a>;
}

export function Outcome({ outcome }: { outcome: string }) {
  return <span class={`badge ${outcome}`}>{outcome}</span>;
}

export function Severity({ severity }: { severity: string | null }) {
  return severity === null ? null : <span class={`badge sev-${severity}`}>{severity}</span>;
}

/** The time, updated every second while it is shown. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
