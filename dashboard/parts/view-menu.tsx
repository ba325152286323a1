// Beside the filters of a list: the views that are saved of it, and saving what it shows now as one. A view is the
// address without what is open; a relative range stays relative.
import { useState } from 'preact/hooks';
import { call } from '../core/api.ts';
import { changed } from '../core/queries.ts';
import { place } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import type { SavedView } from '../core/types.ts';
import { hrefOfView, useViews } from '../core/views.ts';
import { visible } from '../core/visible.ts';
import { announce } from './announce.tsx';
import { Dialog, Field, textOf } from './dialog.tsx';
import { Literal } from './literal.tsx';
import { Reading } from './states.tsx';

/** The parameters that no view saves: what is open, and whether new rows are followed. */
const PASSING = ['id', 'of', 'live'];

export function ViewMenu({ screen }: { screen: SavedView['screen'] }) {
  const [isOpen, setOpen] = useState(false);
  const [dialog, setDialog] = useState<'save' | SavedView>();
  if (isBound()) return null;
  return (
    <>
      <details class="menu" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Views</summary>
        {isOpen && <Choices screen={screen} onChosen={() => setOpen(false)} onDelete={setDialog} />}
      </details>
      {may('configure') && (
        <button type="button" onClick={() => setDialog('save')}>
          Save view
        </button>
      )}
      {dialog === 'save' && <Save screen={screen} onClose={() => setDialog(undefined)} />}
      {typeof dialog === 'object' && <Delete view={dialog} onClose={() => setDialog(undefined)} />}
    </>
  );
}

type ChoicesProps = { screen: SavedView['screen']; onChosen: () => void; onDelete: (view: SavedView) => void };

function Choices({ screen, onChosen, onDelete }: ChoicesProps) {
  const views = useViews();
  const own = (views.value?.items ?? []).filter((view) => view.screen === screen);
  return (
    <div class="choices">
      <Reading of={views} empty={own.length === 0 && <p class="quiet">No view of this list is saved.</p>}>
        {own.map((view) => (
          <div key={view.id} class="bar">
            <a class="grow" href={hrefOfView(view)} onClick={onChosen}>
              <Literal text={view.name} />
            </a>
            {may('configure') && (
              <button type="button" aria-label={`Delete the view ${visible(view.name)}`} onClick={() => onDelete(view)}>
                ×
              </button>
            )}
          </div>
        ))}
      </Reading>
    </div>
  );
}

function Save({ screen, onClose }: { screen: SavedView['screen']; onClose: () => void }) {
  return (
    <Dialog
      title="Save this view"
      action="Save"
      onClose={onClose}
      onAct={async (form) => {
        const params = new URLSearchParams(place.peek().params);
        for (const name of PASSING) params.delete(name);
        await call('POST', 'v1/views', { body: { name: textOf(form, 'name'), screen, query: params.toString() } });
        announce('The view is saved.');
        changed('v1/views');
      }}
    >
      <Field label="Name" hint="Everyone who signs in to this account finds it here and by Ctrl K.">
        <input name="name" required maxLength={200} />
      </Field>
    </Dialog>
  );
}

function Delete({ view, onClose }: { view: SavedView; onClose: () => void }) {
  return (
    <Dialog
      title={
        <>
          Delete the view <Literal text={view.name} />
        </>
      }
      action="Delete"
      danger
      onClose={onClose}
      onAct={async () => {
        await call('DELETE', `v1/views/${view.id}`);
        announce('The view is deleted.');
        changed('v1/views');
      }}
    >
      <p>It is removed for everyone in this account. The rows that it showed stay.</p>
    </Dialog>
  );
}
