// What the policy that is being written would have matched of the newest events, said while one writes: how many, and
// the first of them by what they say. The whole is the backtest's.
// Invariant: what is said is of what stands in the form: an answer to an earlier text is dropped, and nothing is asked
// until no key was pressed for SETTLED_MS. Nothing is recorded, and no counter moves.
// Failure: of a draft that the service would refuse nothing is counted; its mistakes are shown by what tries or saves it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, call } from '../core/api.ts';
import { hrefOf } from '../core/router.ts';
import type { PolicyPreviewed } from '../core/types.ts';
import { Time } from './buttons.tsx';
import { Literal } from './literal.tsx';

const SETTLED_MS = 500;

/** `draft`: the policy as it would be created. Throws ApiError where that cannot be said. */
export function PolicyPreview({ draft }: { draft: (form: FormData) => string }) {
  const [answer, setAnswer] = useState<PolicyPreviewed | ApiError>();
  const [busy, setBusy] = useState(true);
  const box = useRef<HTMLElement>(null);
  const latest = useRef(draft);
  latest.current = draft;
  /** null: nothing yet. */
  const asked = useRef<string | undefined | null>(null);
  useEffect(() => {
    const form = box.current!.closest('form')!;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asking = new AbortController();
    const ask = async () => {
      const body = bodyOf(latest.current, form);
      if (body === asked.current) return;
      asking.abort();
      const mine = new AbortController();
      asking = mine;
      asked.current = body;
      setBusy(true);
      const next = await previewOf(body, mine.signal);
      if (mine.signal.aborted) return;
      setAnswer(next);
      setBusy(false);
    };
    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(() => void ask(), SETTLED_MS);
    };
    soon();
    // Buttons of the form change its text, too.
    for (const kind of ['input', 'change', 'click', 'focusout']) form.addEventListener(kind, soon);
    return () => {
      clearTimeout(timer);
      asking.abort();
      for (const kind of ['input', 'change', 'click', 'focusout']) form.removeEventListener(kind, soon);
    };
  }, []);
  return (
    <section ref={box} class="would-match" aria-label="What it would have matched" aria-live="polite" aria-busy={busy}>
      {answer === undefined && <p class="quiet">Looking at the newest events …</p>}
      {answer instanceof ApiError && <p class="quiet">{refusalOf(answer)}</p>}
      {answer !== undefined && !(answer instanceof ApiError) && <Told {...answer} />}
    </section>
  );
}

/** undefined: there is no JSON to send yet. */
function bodyOf(draft: (form: FormData) => string, form: HTMLFormElement): string | undefined {
  try {
    return draft(new FormData(form));
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

type Answered = PolicyPreviewed | ApiError | undefined;

async function previewOf(body: string | undefined, signal: AbortSignal): Promise<Answered> {
  if (body === undefined) return new ApiError(400, 'validation_failed', '');
  try {
    return (await call<PolicyPreviewed>('POST', 'v1/policies/preview', { rawBody: body, signal })).value;
  } catch (error) {
    if (error instanceof ApiError) return error;
    if (!signal.aborted) throw error;
    return undefined; // something newer is asked, or the editor was closed
  }
}

function refusalOf({ status, message }: ApiError): string {
  return status === 400 ? 'What it would have matched is shown once it is valid.' : message;
}

function Told({ events, matched, unknown, first, complete, approximate }: PolicyPreviewed) {
  const count = (n: number) => n.toLocaleString('en');
  if (events === 0) return <p class="quiet">There are no events yet that it could have matched.</p>;
  return (
    <>
      <p>
        Would have matched <strong>{count(matched)}</strong> of the last <strong>{count(events)}</strong>{' '}
        {events === 1 ? 'event' : 'events'}
        {unknown > 0 && `; of ${count(unknown)} it is not known, since what decides was redacted`}
        {approximate && '; the limit was counted over these alone'}.
        {!complete && ' There are more, which were too much to look at here, or are not stored yet.'}
      </p>
      {first.length > 0 && (
        <ul>
          {first.map((event) => (
            <li key={event.id}>
              <a href={hrefOf('event', { agent_id: event.agent_id, id: event.id })} target="_blank" rel="noopener">
                <Literal text={event.summary === '' ? event.type : event.summary} />
                <span class="hidden">, opens beside this page</span>
              </a>{' '}
              <span class="quiet">
                <Time at={event.timestamp} ago />
              </span>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
