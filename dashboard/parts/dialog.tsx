// A form in a native dialog: focus stays inside, Escape closes it, what the service refuses is shown where it is.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from '../core/api.ts';
import { Problem } from './states.tsx';

export type DialogProps = {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** Name of the button that acts; undefined: there is only one to close. */
  action?: string;
  danger?: boolean;
  /** Rejects with an ApiError, which is shown; else the dialog closes, unless `stay`. */
  onAct?: (form: FormData) => Promise<void>;
  stay?: boolean;
};

export function Dialog({ title, onClose, children, action, danger = false, onAct, stay = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const act = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || onAct === undefined) return;
    setBusy(true);
    setError(undefined);
    try {
      await onAct(new FormData(event.currentTarget as HTMLFormElement));
      if (!stay) onClose();
    } catch (refusal) {
      setError(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="dialog-title">
      <form onSubmit={act}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {error !== undefined && <Problem error={error} />}
        <div class="bar end">
          <button type="button" onClick={() => dialog.current?.close()}>
            {action === undefined ? 'Close' : 'Cancel'}
          </button>
          {action !== undefined && (
            <button type="submit" class={danger ? 'danger' : 'primary'} aria-busy={busy}>
              {action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

/** A labelled field of a form. `hint` is read out with it. */
export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint !== undefined && <small>{hint}</small>}
    </label>
  );
}

export function textOf(form: FormData, name: string): string {
  return String(form.get(name) ?? '').trim();
}
