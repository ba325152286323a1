// The conditions of a policy as a form or as their JSON, each behind a tab. Both show one text, so each follows the other.
// Invariant: both stay in the page, so nothing that was begun in one is lost by looking at the other; the tab that was
// chosen last is the one of the next policy, too.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

const TABS = ['Form', 'JSON'] as const;
type Tab = (typeof TABS)[number];

const KEPT = 'gatehouse-policy-tab';
const chosen = signal<Tab>(localStorage.getItem(KEPT) === 'JSON' ? 'JSON' : 'Form');

function choose(tab: Tab): void {
  localStorage.setItem(KEPT, tab);
  chosen.value = tab;
}

export function FormOrJson({ form, json }: { form: ComponentChildren; json: ComponentChildren }) {
  const tab = chosen.value;
  return (
    <>
      <div class="views" role="tablist" aria-label="Conditions as">
        {TABS.map((one) => (
          <button
            key={one}
            id={`tab-${one}`}
            type="button"
            role="tab"
            aria-selected={one === tab}
            aria-controls={`panel-${one}`}
            tabIndex={one === tab ? 0 : -1}
            onClick={() => choose(one)}
            onKeyDown={(event) => {
              if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
              event.preventDefault();
              const other = one === 'Form' ? 'JSON' : 'Form';
              choose(other);
              document.getElementById(`tab-${other}`)?.focus();
            }}
          >
            {one}
          </button>
        ))}
      </div>
      {TABS.map((one) => (
        <div key={one} id={`panel-${one}`} role="tabpanel" aria-labelledby={`tab-${one}`} hidden={one !== tab}>
          {one === 'Form' ? form : json}
        </div>
      ))}
    </>
  );
}
