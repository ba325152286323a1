// Ctrl K: to a screen, a saved view, an agent, a policy by its name, or to whatever an id names.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { hrefOfId } from '../core/id-links.ts';
import { go, hrefOf } from '../core/router.ts';
import { isBound } from '../core/session.ts';
import { hrefOfView, useViews } from '../core/views.ts';
import { SCREENS } from '../screens/routes.ts';
import { Literal } from './literal.tsx';
import { useFound } from './named.tsx';

type Target = { title: string; kind: string; href: string };
const SHOWN_MAX = 12;

export function Palette({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const agents = useFound('agents', words, SHOWN_MAX);
  const policies = useFound(isBound() ? undefined : 'policies', words, SHOWN_MAX);
  const views = useViews();
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const all: Target[] = [
    ...byId(words.trim()),
    ...SCREENS.filter(({ listed, found }) => listed || found).map(({ path, title }) => ({
      title,
      kind: 'screen',
      href: hrefOf(path),
    })),
    ...(views.value?.items ?? []).map((view) => ({
      title: view.name,
      kind: `view of ${view.screen}`,
      href: hrefOfView(view),
    })),
    ...(agents.value?.items ?? []).map(({ id, name }) => ({
      title: name,
      kind: 'agent',
      href: hrefOf('agent', { id }),
    })),
    ...(policies.value?.items ?? []).map(({ id, name }) => ({
      title: name,
      kind: 'policy',
      href: hrefOf('policies', { id }),
    })),
  ];
  const wanted = words.trim().toLowerCase();
  const shown = all
    .filter(({ title, kind }) => kind === 'id' || title.toLowerCase().includes(wanted))
    .slice(0, SHOWN_MAX);
  const take = (target: Target | undefined) => {
    if (target === undefined) return;
    dialog.current?.close();
    go(target.href);
  };
  return (
    <dialog ref={dialog} class="palette" onClose={onClose} aria-label="Go to">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          take(shown[at]);
        }}
      >
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={shown[at] === undefined ? undefined : `palette-${at}`}
          aria-label="A screen, a view, an agent, a policy, or an id"
          placeholder="A screen, a view, an agent, a policy, or an id"
          value={words}
          onInput={({ currentTarget }) => {
            setWords(currentTarget.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (step === undefined) return;
            event.preventDefault();
            setAt((n) => Math.max(0, Math.min(shown.length - 1, n + step)));
          }}
        />
      </form>
      <div id="palette-list" role="listbox" aria-label="Places">
        {shown.map((target, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above takes the keys
          // biome-ignore lint/a11y/useFocusableInteractive: the field above keeps the focus
          <div
            key={target.kind + target.href}
            id={`palette-${i}`}
            role="option"
            aria-selected={i === at}
            onClick={() => take(target)}
          >
            <Literal text={target.title} /> <span class="quiet">{target.kind}</span>
          </div>
        ))}
      </div>
      {shown.length === 0 && <p class="quiet">Nothing is called so.</p>}
    </dialog>
  );
}

/** Ids say what they name. */
function byId(text: string): Target[] {
  const href = hrefOfId(text);
  if (href !== undefined) return [{ title: text, kind: 'id', href }];
  return /^\S{8,}$/.test(text) ? [{ title: `Trace ${text}`, kind: 'id', href: hrefOf('trace', { id: text }) }] : [];
}
