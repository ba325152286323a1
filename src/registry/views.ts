// Saved views as resources: a screen of the dashboard and its query under a name (schemas/view.ts).
// Invariant: names are unique in the account, and an account has VIEWS_MAX at most. A view is the account's: it belongs
// to no agent, and is not changed, only deleted and saved again.
// Failure: Redis away is `unavailable`; nothing is half made.
import { isoTime } from '../../schemas/time.ts';
import type { SavedView, ViewCreate } from '../../schemas/view.ts';
import { mintId } from '../common/ids.ts';
import { VIEWS_MAX } from '../common/limits.ts';
import type { Actor } from './accounts/principal.ts';
import { answering, nowOf, type RegistryStore } from './commit.ts';
import type { Created, Idempotency, Keeping } from './idempotency.ts';
import type { Listed, NamedPage } from './lists.ts';
import { type Named, NamedRecords } from './named-records.ts';

type ViewRecord = SavedView & Named;

export class Views {
  readonly #store: RegistryStore;
  readonly #records: NamedRecords<ViewRecord>;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#records = new NamedRecords(store, {
      kind: 'view',
      hash: store.keys.views,
      names: store.keys.viewNames,
      max: VIEWS_MAX,
    });
  }

  /** Throws ServiceError validation_failed, name_taken, idempotency_…, unavailable. */
  create(account: string, body: ViewCreate, actor: Actor, idempotency?: Idempotency): Promise<Created> {
    return this.#records.once(account, idempotency, (keeping) => this.#create(account, body, actor, keeping));
  }

  /** Newest first. */
  list(account: string, asked: NamedPage): Promise<Listed<SavedView>> {
    return answering(() => this.#records.list(account, asked, shownOf));
  }

  /** false: no such view. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    return this.#records.remove(account, id, {}, actor);
  }

  async #create(account: string, body: ViewCreate, actor: Actor, keeping: Keeping): Promise<string> {
    const atMs = nowOf(this.#store);
    const { name, screen, query } = body;
    const view = { id: mintId('view', atMs), name, screen, query, created_at: isoTime(atMs) };
    const answer = JSON.stringify(view);
    const record: ViewRecord = { ...view, agent_id: null };
    return this.#records.add(account, record, { keeping, details: { screen, query }, atMs, answer }, actor);
  }
}

function shownOf({ id, name, screen, query, created_at }: ViewRecord): SavedView {
  return { id, name, screen, query, created_at };
}
