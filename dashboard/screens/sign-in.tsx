// Signing in: an API key is handed over once, and a cookie that no script can read comes back. A key that a link brings
// is handed over when the person has seen whose account it is.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../core/api.ts';
import {
  ended,
  follow,
  type OfferedKey,
  offeredKey,
  openSession,
  session,
  sessionError,
  signIn,
} from '../core/session.ts';
import type { SignedIn } from '../core/types.ts';
import { isWritten } from '../core/unsaved.ts';
import { Literal } from '../parts/literal.tsx';
import { Problem } from '../parts/states.tsx';

const isPlain = location.protocol === 'http:' && !/^(localhost|127\.|\[::1\])/.test(location.hostname);

/** `isOver`: what a person was at is below, and stays; a dialog of it lets nothing but another dialog be used. */
type Over = { isOver: boolean };

function Cover({ isOver, children }: Over & { children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    if (!isOver) return undefined;
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      requestAnimationFrame(() => before instanceof HTMLElement && before.isConnected && before.focus());
    };
  }, []);
  const main = (
    // Enter that is held down since before this was there says nothing.
    <main class="sign-in" onKeyDown={(event) => event.repeat && event.key === 'Enter' && event.preventDefault()}>
      {children}
    </main>
  );
  if (!isOver) return main;
  return (
    <dialog
      ref={dialog}
      class="cover"
      aria-label="Sign in"
      onCancel={(event) => event.preventDefault()}
      onClose={() => dialog.current?.showModal()}
    >
      {main}
    </dialog>
  );
}

export function SignIn({ isOver }: Over) {
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
    <Cover isOver={isOver}>
      <h1>Gatehouse</h1>
      {isOver && <Ended />}
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
            <code>npm start</code> prints the first one, or the file that holds it. The browser does not store the key.
          </small>
        </label>
        <button type="submit" class="primary" aria-busy={busy}>
          Sign in
        </button>
      </form>
    </Cover>
  );
}

function Ended() {
  const by = ended.value?.by;
  return (
    <>
      <p role="status">
        {by === undefined
          ? 'Your session has ended.'
          : 'Another tab of this browser has signed in anew, so this one has stopped.'}{' '}
        {isWritten() && `What you wrote is kept: sign in to ${session.value?.account_name} to go on.`}
      </p>
      {by !== undefined && (
        <p>
          <button type="button" onClick={() => follow(by)}>
            Go on in <Literal text={by.account_name} />
          </button>{' '}
          with the key “<Literal text={by.key_label} />” ({by.scope})
        </p>
      )}
    </>
  );
}

/** Enter signs in a person who is signed out, and leaves one who is signed in where they are. */
export function Offered({ offered: { key, whose, instead }, isOver }: Over & { offered: OfferedKey }) {
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
    } finally {
      setBusy(false);
    }
  };
  const isUseless = whose instanceof ApiError;
  const given = error ?? (isUseless ? whose : undefined);
  return (
    <Cover isOver={isOver}>
      <h1>Gatehouse</h1>
      {given !== undefined && <Problem error={given} />}
      {!isUseless && (
        <p>
          This link signs you in to the account <Account of={whose} /> with the key “
          <Literal text={whose.key_label} />” ({whose.scope}).
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
            Stay in <Literal text={instead.account_name} />
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
            Sign in to <Literal text={whose.account_name} />
          </button>
        )}
        {instead === null && (
          <button type="button" onClick={stay}>
            Do not sign in
          </button>
        )}
      </div>
    </Cover>
  );
}

/** Names can be alike, ids cannot. */
function Account({ of }: { of: SignedIn }) {
  return (
    <>
      <strong>
        <Literal text={of.account_name} />
      </strong>{' '}
      (<code>{of.account_id}</code>)
    </>
  );
}
