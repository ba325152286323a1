// Policies and backtests: what each policy asks for, how often it matched in the last day, one of them open beside the
// list, and an editor that marks what the service does not take. What is open is in the address.
import { useMemo } from 'preact/hooks';
import { ApiError, query } from '../core/api.ts';
import type { TriedPolicy } from '../core/backtests.ts';
import { type Known, useMatches } from '../core/by-id.ts';
import { withTest } from '../core/policy-form.ts';
import { fieldsOfEvent, TOOL } from '../core/policy-of-event.ts';
import { useList, useRead, useWhole } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import { readable } from '../core/tokens.ts';
import type { Agent, Policy, WholeEvent } from '../core/types.ts';
import { BacktestList } from '../parts/backtest-list.tsx';
import { BacktestView } from '../parts/backtest-view.tsx';
import { Severity, Time } from '../parts/buttons.tsx';
import { Search } from '../parts/filters.tsx';
import { Literal } from '../parts/literal.tsx';
import { AgentName } from '../parts/named.tsx';
import { PolicyEditor } from '../parts/policy-editor.tsx';
import { InForce } from '../parts/policy-start.tsx';
import { PolicyView } from '../parts/policy-view.tsx';
import { ReadyPolicies } from '../parts/ready-policies.tsx';
import { Side } from '../parts/side.tsx';
import { Empty, More, Problem, Reading } from '../parts/states.tsx';
import { sortedBy, Table } from '../parts/table.tsx';
import { TryInForce } from '../parts/try-in-force.tsx';
import type { Recorded } from '../parts/try-policy.tsx';

/** The parameters of the open policy, all removed. */
const CLOSED = {
  ...{ id: undefined, tab: undefined, revision: undefined, with: undefined, backtest: undefined },
  ...{ range: undefined, from: undefined, to: undefined },
};

/** The address: `view` which list, `id` and `backtest` what is open beside it, `new`, `ready` and `try` a dialog. */
export function Policies() {
  const { params } = place.value;
  const [id, backtest] = [params.get('id'), params.get('backtest')];
  const areBacktests = params.get('view') === 'backtests';
  const isOpen = id !== null || backtest !== null;
  return (
    <div class={`screen ${isOpen ? 'split even' : ''}`}>
      <section class="main scrolls" aria-label="Policies">
        <Head areBacktests={areBacktests} />
        {areBacktests ? <BacktestList /> : <PolicyList open={id} />}
      </section>
      {isOpen && (
        <Side
          label={id === null ? 'Open backtest' : 'Open policy'}
          of={id ?? backtest!}
          onClose={() => setParams(CLOSED)}
        >
          {id === null ? <BacktestView key={backtest} id={backtest!} /> : <PolicyView key={id} id={id} />}
        </Side>
      )}
      {params.has('new') && may('configure') && !isBound() && <NewPolicy />}
      {params.has('ready') && may('configure') && !isBound() && (
        <ReadyPolicies onClose={() => setParams({ ready: undefined }, { replace: true })} />
      )}
      {params.has('try') && may('configure') && (
        <TryInForce onClose={() => setParams({ try: undefined }, { replace: true })} />
      )}
    </div>
  );
}

function Head({ areBacktests }: { areBacktests: boolean }) {
  return (
    <header class="bar">
      <h1>Policies</h1>
      {!isBound() && (
        <nav class="views" aria-label="Lists">
          <ul>
            <li>
              <a href={hrefOf('policies')} aria-current={areBacktests ? undefined : 'page'}>
                All
              </a>
            </li>
            <li>
              <a href={hrefOf('policies', { view: 'backtests' })} aria-current={areBacktests ? 'page' : undefined}>
                Backtests
              </a>
            </li>
          </ul>
        </nav>
      )}
      <span class="grow" />
      {!areBacktests && <Search label="Part of a name" />}
      {!isBound() && <a href={hrefOf('checks')}>Checks</a>}
      {may('configure') && (
        <button type="button" onClick={() => setParams({ try: '1' })}>
          Try an event
        </button>
      )}
      {may('configure') && !isBound() && (
        <>
          <button type="button" onClick={() => setParams({ ready: '1' })}>
            Ready policies
          </button>
          <button type="button" class="primary" onClick={() => setParams({ new: '1' })}>
            New policy
          </button>
        </>
      )}
    </header>
  );
}

function PolicyList({ open }: { open: string | null }) {
  const { params } = place.value;
  const words = params.get('q') ?? '';
  const list = useList<Policy>(`v1/policies${query({ q: words })}`);
  const isWhole = list.total <= SORTED_MAX;
  useWhole(list, isWhole && sortedBy() !== null);
  const matchesOf = useMatches(list.items.map(({ id }) => id));
  /** Beside a policy that is open there is room for its name, status and matches. */
  const ofRow = <T,>(cells: readonly T[]) => (open === null ? cells : cells.filter((_, i) => [0, 3, 4].includes(i)));
  const none = words === '' ? <NoPolicies /> : <p class="quiet">No policy has “{words}” in its name.</p>;
  return (
    <Reading of={list} empty={list.items.length === 0 && none}>
      <Table
        numbers={['Matches in 24 h']}
        isWhole={isWhole}
        head={ofRow(['Policy', 'Type', 'Actions', 'Status', 'Matches in 24 h', 'Changed'])}
        rows={list.items.map((policy) => ({
          key: policy.id,
          isOpen: policy.id === open,
          by: sortValuesOf(policy, matchesOf(policy.id)),
          cells: ofRow([
            <>
              <a href={hrefOf('policies', { id: policy.id })}>
                <Literal text={policy.name} />
              </a>{' '}
              <Severity severity={policy.severity} />{' '}
              <span class="quiet">
                revision {policy.revision}
                {policy.agent_id !== null && (
                  <>
                    , for <AgentName id={policy.agent_id} />
                  </>
                )}
              </span>
            </>,
            policy.type,
            policy.actions.join(', '),
            <>
              <InForce policy={policy} /> {policy.mode === 'shadow' && <span class="badge shadow">shadow</span>}
            </>,
            <a href={hrefOf('events', { policy_id: policy.id, range: '24h' })}>{countText(matchesOf(policy.id))}</a>,
            <Time at={policy.updated_at} ago />,
          ]),
        }))}
      />
      <More of={list} />
    </Reading>
  );
}

/** Policies in so few pages are read to the last one where an order is asked for. */
const SORTED_MAX = 500;

function sortValuesOf({ name, type, actions, status, updated_at: changed }: Policy, matches: Known<number>) {
  return {
    ...{ Policy: name, Type: type, Actions: actions.join(), Status: status, Changed: Date.parse(changed) },
    'Matches in 24 h': typeof matches === 'number' ? matches : null,
  };
}

function countText(matches: Known<number>): string {
  if (matches === undefined) return '…';
  return matches === null || matches instanceof ApiError ? 'not known' : matches.toLocaleString('en');
}

/**
 * `agent_id` and `event_id` of the address: the event to try it on; `field`: what of it the policy begins with; `scope`:
 * it is for that agent alone.
 */
function NewPolicy() {
  const { params } = place.value;
  const [agentId, id, fields] = [params.get('agent_id'), params.get('event_id'), params.getAll('field')];
  const tried = agentId === null || id === null ? undefined : { agent_id: agentId, id };
  const onClose = () =>
    setParams(
      { new: undefined, agent_id: undefined, event_id: undefined, field: undefined, scope: undefined },
      { replace: true },
    );
  if (tried === undefined || fields.length === 0) return <PolicyEditor tried={tried} onClose={onClose} />;
  return <NewPolicyOfEvent isOfAgent={params.has('scope')} {...{ tried, fields, onClose }} />;
}

type OfEventProps = { tried: Recorded; fields: readonly string[]; isOfAgent: boolean; onClose: () => void };

function NewPolicyOfEvent({ tried, fields, isOfAgent, onClose }: OfEventProps) {
  const agentPath = `v1/agents/${encodeURIComponent(tried.agent_id)}`;
  const event = useRead<WholeEvent>(`${agentPath}/events/${encodeURIComponent(tried.id)}`);
  const agent = useRead<Agent>(isOfAgent ? agentPath : undefined);
  const isKnown = event.value !== undefined && !agent.waiting;
  // What was begun stays as it is when the event is read again.
  const draft = useMemo(
    () => (isKnown ? draftOf(event.value!, fields, isOfAgent ? agent.value : undefined) : undefined),
    [isKnown],
  );
  if (draft !== undefined) return <PolicyEditor draft={draft} tried={tried} onClose={onClose} />;
  const { error, retry } = event.error === undefined ? agent : event;
  return error === undefined ? null : <Problem error={error} retry={retry} />;
}

function draftOf(event: WholeEvent, fields: readonly string[], agent: Agent | undefined): TriedPolicy {
  const picked = fieldsOfEvent(event).filter(({ field }) => fields.includes(field));
  const text = picked.reduce((before, { field, value }) => withTest(before, field, value), '{}');
  const tool = picked.find(({ field }) => field === TOOL)?.value;
  const name = agent === undefined || tool === undefined ? '' : `no ${readable(tool)} for ${agent.name}`;
  return {
    ...{ name: name.slice(0, NAME_MAX), type: 'block_action', agent_id: agent?.id ?? null },
    ...{ actions: ['block'], severity: null, conditions: { text } },
  };
}

/** As the interface takes it. */
const NAME_MAX = 200;

function NoPolicies() {
  return (
    <Empty title="No policies yet">
      <p>
        A policy says which events are blocked, wait for a person, are counted, or are looked through for secrets. Saved
        as a shadow it is tried first, and stops no agent. <b>Ready policies</b> has some to begin with.
      </p>
    </Empty>
  );
}
