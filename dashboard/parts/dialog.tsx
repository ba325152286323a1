// A form in a native dialog: focus stays inside, Escape closes it, what the service refuses is shown where it is.
// Invariant: what was written into it is not lost unasked, whatever closes it.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from '../core/api.ts';
import { session } from '../core/session.ts';
import { mayLeave, useWritten } from '../core/unsaved.ts';
import { Literal } from './literal.tsx';
import { Problem } from './states.tsx';

type DialogProps = {
  /** Names in it are drawn by `Literal`. */
  title: ComponentChildren;
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
  const written = useWritten();
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => setError(undefined), [session.value?.id]);
  const act = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || onAct === undefined) return;
    setBusy(true);
    setError(undefined);
    try {
      await onAct(new FormData(event.currentTarget as HTMLFormElement));
      written.is = false;
      if (!stay) onClose();
    } catch (refusal) {
      setError(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  const close = () => {
    if (mayLeave([written])) dialog.current?.close();
  };
  return (
    <dialog
      ref={dialog}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      // The browser closes it without a word at the second Escape.
      onClose={() => (mayLeave([written]) ? onClose() : dialog.current?.showModal())}
    >
      <form onSubmit={act} onInput={({ target }) => (written.is ||= isPart(target))}>
        <h2 id="dialog-title">{typeof title === 'string' ? <Literal text={title} /> : title}</h2>
        {children}
        {error !== undefined && <Problem error={error} />}
        <div class="bar end">
          <button type="button" onClick={close}>
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

/**
 * Says whether a field is part of what is sent, or was written to try it: not a search, nor a choice of what is looked
 * at.
 */
function isPart(field: EventTarget | null): boolean {
  if (field instanceof HTMLTextAreaElement) return true;
  if (field instanceof HTMLSelectElement) return field.name !== '';
  return field instanceof HTMLInputElement && !['search', 'file'].includes(field.type);
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
