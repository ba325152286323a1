// Saved views as resources: a screen of the dashboard and its query under a name (schemas/view.ts).
// Invariant: names are unique in the account, and an account has VIEWS_MAX at most. A view is the account's: it belongs
// to no agent, and is not changed, only deleted and saved again.
// Failure: Redis away is `unavailable`; nothing is half made.
import { isoTime } from '../../schemas/time.ts';
import type { SavedView, ViewCreate } from '../../schemas/view.ts';
import type { ServiceError } from '../common/errors.ts';
import { mintId } from '../common/ids.ts';
import { VIEWS_MAX } from '../common/limits.ts';
import { steadyNow } from '../common/steady-clock.ts';
import { validationFailed } from '../common/validation.ts';
import { answering, type RegistryStore } from './commit.ts';
import type { Created, Idempotency, Keeping } from './idempotency.ts';
import type { Listed, NamedPage } from './lists.ts';
import { commonRefusal, type Named, NamedRecords, tooMany } from './named-records.ts';
import type { Actor } from './principal.ts';

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
      read: (text) => JSON.parse(text) as ViewRecord,
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
    const atMs = (this.#store.now ?? steadyNow)();
    const { name, screen, query } = body;
    const view = { id: mintId('view', atMs), name, screen, query, created_at: isoTime(atMs) };
    const answer = JSON.stringify(view);
    const record: ViewRecord = { ...view, agent_id: null };
    const refused = await this.#records.add(
      account,
      record,
      { keeping, details: { screen, query }, atMs, answer },
      actor,
    );
    if (refused !== undefined) throw refusal(refused, actor);
    return answer;
  }
}

function shownOf({ id, name, screen, query, created_at }: ViewRecord): SavedView {
  return { id, name, screen, query, created_at };
}

function refusal(guard: string, actor: Actor): ServiceError {
  if (guard !== 'full') return commonRefusal(guard, 'view');
  return validationFailed('The view cannot be kept.', [{ path: '/', message: tooMany('views', VIEWS_MAX, actor) }]);
}
