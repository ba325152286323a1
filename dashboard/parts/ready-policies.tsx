// The policies that come with the service, each one click from being tried: it is made in shadow mode, where nothing
// comes of it but its report, and promoted from there.
// Invariant: what is sent is the text that the service answered, so numbers stay as they are written in the files.
// Failure: a refusal, as of a name that is taken, is shown; what was made stays made.
import { useState } from 'preact/hooks';
import { type ApiError, call } from '../core/api.ts';
import type { RawJson } from '../core/json.ts';
import { changed, useRead } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import type { Policy, ReadyPolicy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Dialog } from './dialog.tsx';
import { Literal } from './literal.tsx';
import { Problem, Reading } from './states.tsx';

const TEXTS = ['policy'];

export function ReadyPolicies({ onClose }: { onClose: () => void }) {
  const reading = useRead<{ items: ReadyPolicy[] }>('v1/policies/ready', { kept: TEXTS });
  return (
    <Dialog title="Ready policies" onClose={onClose}>
      <p>
        Each is made as a shadow: for 14 days it is judged on what agents do. It decides nothing, and writes a report.
        From there it is changed, or promoted.
      </p>
      <Reading of={reading}>
        <ul class="ready">
          {reading.value?.items.map((one) => (
            <Ready key={one.name} one={one} />
          ))}
        </ul>
      </Reading>
    </Dialog>
  );
}

function Ready({ one: { name, description, file, policy } }: { one: ReadyPolicy }) {
  const [made, setMade] = useState<string>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const make = async () => {
    if (busy) return;
    setBusy(true);
    setError(undefined);
    try {
      const { value } = await call<Policy>('POST', 'v1/policies', { rawBody: asShadow(policy) });
      setMade(value.id);
      announce(
        <>
          <Literal text={name} /> is tried as a shadow.
        </>,
      );
      changed('v1/policies', 'v1/audit-logs');
    } catch (refusal) {
      setError(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  return (
    <li>
      <strong>
        <Literal text={name} />
      </strong>
      <div>
        <Literal text={description} /> <span class="quiet">{file}</span>
      </div>
      {made === undefined ? (
        <button type="button" aria-busy={busy} onClick={() => void make()}>
          Try it as a shadow
          <span class="hidden">: {name}</span>
        </button>
      ) : (
        <a href={hrefOf('policies', { id: made })}>
          Look at it<span class="hidden">: {name}</span>
        </a>
      )}
      {error !== undefined && <Problem error={error} />}
    </li>
  );
}

function asShadow({ text }: RawJson): string {
  return `{"mode":"shadow",${text.slice(text.indexOf('{') + 1)}`;
}
