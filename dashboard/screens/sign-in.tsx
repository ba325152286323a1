// Signing in: an API key is handed over once, and a cookie that no script can read comes back. A key that a link brings
// is handed over when the person has seen whose account it is.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../core/api.ts';
import { type OfferedKey, offeredKey, openSession, sessionError, signIn } from '../core/session.ts';
import type { SignedIn } from '../core/types.ts';
import { Problem } from '../parts/states.tsx';

const isPlain = location.protocol === 'http:' && !/^(localhost|127\.|\[::1\])/.test(location.hostname);

export function SignIn() {
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const given = error ?? sessionError.value;
  const hand = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    setBusy(true);
    setError(undefined);
    try {
      await signIn(String(new FormData(form).get('key') ?? ''));
    } catch (refusal) {
      setError(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <h1>Gatehouse</h1>
      {isPlain && (
        <p class="banner" role="status">
          This page came over plain HTTP: anyone who can read the network can read the key. Put a proxy with TLS before
          the service.
        </p>
      )}
      {given !== undefined && (
        <Problem error={given} retry={given.status === 0 ? () => void openSession() : undefined} />
      )}
      <form onSubmit={hand} autocomplete="off">
        <label class="field">
          <span>API key</span>
          <input name="key" type="password" required maxLength={300} autocomplete="off" spellcheck={false} />
          <small>
            <code>npm start</code> prints the first one. The key is kept nowhere in the browser.
          </small>
        </label>
        <button type="submit" class="primary" aria-busy={busy}>
          Sign in
        </button>
      </form>
    </main>
  );
}

/** Enter signs in a person who is signed out, and leaves one who is signed in where they are. */
export function Offered({ offered: { key, whose, instead } }: { offered: OfferedKey }) {
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => first.current?.focus(), []);
  const stay = () => {
    offeredKey.value = undefined;
  };
  const goOn = async () => {
    setBusy(true);
    try {
      await signIn(key);
    } catch (refusal) {
      setError(refusal as ApiError);
      setBusy(false);
    }
  };
  const isUseless = whose instanceof ApiError;
  const given = error ?? (isUseless ? whose : undefined);
  return (
    // A key that is held down since before the link was opened says nothing.
    <main class="sign-in" onKeyDown={(event) => event.repeat && event.preventDefault()}>
      <h1>Gatehouse</h1>
      {given !== undefined && <Problem error={given} />}
      {!isUseless && (
        <p>
          This link signs you in to the account <Account of={whose} /> with the key “{whose.key_label}” ({whose.scope}).
        </p>
      )}
      {instead !== null && (
        <p>
          You are signed in to the account <Account of={instead} />.
        </p>
      )}
      {!isUseless && <p class="quiet">Go on if you know where the link is from. What you do then is done there.</p>}
      <div class="bar">
        {instead !== null && (
          <button type="button" class="primary" ref={first} onClick={stay}>
            Stay in {instead.account_name}
          </button>
        )}
        {!isUseless && (
          <button
            type="button"
            class={instead === null ? 'primary' : ''}
            {...(instead === null ? { ref: first } : {})}
            aria-busy={busy}
            onClick={() => void goOn()}
          >
            Sign in to {whose.account_name}
          </button>
        )}
        {instead === null && (
          <button type="button" onClick={stay}>
            Do not sign in
          </button>
        )}
      </div>
    </main>
  );
}

/** Names can be alike, ids cannot. */
function Account({ of }: { of: SignedIn }) {
  return (
    <>
      <strong>{of.account_name}</strong> (<code>{of.account_id}</code>)
    </>
  );
}
