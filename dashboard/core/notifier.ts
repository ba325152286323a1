// The notifications of this browser: of a new approval, and of an anomaly of high severity. It reads a stream of its
// own (live.ts), which goes on while the page is hidden.
// Invariant: of all tabs of a session one notifies, the one that holds the lock. A notification says no more than the
// sentence of the service (`summary`, `message`). One is gone when its approval is decided.
// Failure: where more came than was sent one by one, one notification says how many wait. What comes in while the
// lock goes from a tab that is closed to the next one has none; the title of the tab counts it.
import type { Severity } from '../../schemas/closed-sets.ts';
import { query, read } from './api.ts';
import { lead } from './live.ts';
import { go, hrefOf } from './router.ts';
import type { Anomaly, Approval, ApprovalRow, Page } from './types.ts';
import { visible } from './visible.ts';

const TELLING: ReadonlySet<Severity> = new Set<Severity>(['high', 'critical']);
/** The characters of a text that a system notification shows. */
const BODY_CHARACTERS = 200;
/** More at a time cover the screen, and are read by no one: one says that there are more. */
const AT_ONCE = 5;
const AT_ONCE_MS = 10_000;
/** Ids that have had one, so that a further change of the same makes no other. */
const TOLD_MAX = 1_000;

/** Answers what ends it. Other tabs of the session wait for their turn. */
export function startNotifying(sessionId: string): () => void {
  const left = new AbortController();
  const { signal } = left;
  const shown = new Map<string, Notification>();
  const told = new Set<string>();
  let lately: number[] = [];

  const show = (id: string, title: string, text: string, href: string) => {
    const now = performance.now();
    lately = lately.filter((at) => now - at < AT_ONCE_MS);
    if (signal.aborted) return;
    const isMany = lately.push(now) > AT_ONCE;
    const tag = isMany ? 'gatehouse-more' : id;
    const body = visible(text).slice(0, BODY_CHARACTERS);
    const one = new Notification(isMany ? 'More came in' : visible(title).slice(0, BODY_CHARACTERS), { tag, body });
    one.onclick = () => {
      window.focus();
      go(href);
      one.close();
    };
    shown.set(tag, one);
    one.onclose = () => shown.delete(tag);
  };

  const tellApproval = async ({ id, status, event_id, policy_name }: Approval) => {
    if (status !== 'pending') shown.get(id)?.close();
    if (status !== 'pending' || !isNew(told, id)) return;
    const path = `v1/approvals${query({ event_id, expand: 'event', payload: 'none' })}`;
    const items = await read<Page<ApprovalRow>>(path, { signal }).then(
      ({ value }) => value.items,
      () => [],
    );
    const said = items.find((one) => one.id === id)?.event?.summary ?? '';
    show(id, `Waits for you: ${policy_name}`, said, hrefOf('approvals', { id }));
  };

  const tellAnomaly = ({ id, severity, message }: Anomaly) => {
    if (TELLING.has(severity) && isNew(told, id))
      show(id, `Anomaly, ${severity}`, message, hrefOf('anomalies', { id }));
  };

  const tellMany = async () => {
    const path = 'v1/approvals?status=pending&limit=1';
    const { value } = await read<Page<Approval>>(path, { signal });
    if (value.total > 0) show('gatehouse-gap', `${value.total} approvals wait`, '', hrefOf('approvals'));
  };

  const run = () =>
    lead('topics=approvals,anomalies', signal, ({ topic, row }) => {
      if (topic === 'approvals') void tellApproval(row as Approval);
      else if (topic === 'anomalies') tellAnomaly(row as Anomaly);
      else if (topic === 'gap') void tellMany().catch(() => undefined);
    });
  void navigator.locks.request(`gatehouse:notify:${sessionId}`, { signal }, run).catch(() => undefined);
  return () => left.abort();
}

function isNew(told: Set<string>, id: string): boolean {
  if (told.has(id)) return false;
  if (told.size >= TOLD_MAX) told.clear();
  told.add(id);
  return true;
}
