// Signing in: an API key is handed over once, and a cookie that no script can read comes back.
import { useState } from 'preact/hooks';
import type { ApiError } from '../core/api.ts';
import { openSession, sessionError, signIn } from '../core/session.ts';
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
