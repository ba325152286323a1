// Why an event was blocked, or waits: each policy at its revision, the condition that held and where, the counter, what
// was redacted. A place is a link into the payload below. What a policy asked for is read from the revision that judged
// the event: the present one mostly, else from among those that are kept.

import { usePolicy, useRevision } from '../core/policies.ts';
import { OPERATOR_WORDS } from '../core/policy-form.ts';
import { hrefOf } from '../core/router.ts';
import { isBound } from '../core/session.ts';
import { layOut, lineAt, readableShort, valueAt } from '../core/tokens.ts';
import type {
  ConditionHeld,
  ConditionUnmet,
  PolicyMatch,
  ShadowJudged,
  WholeEvent,
  WholePolicy,
} from '../core/types.ts';
import { Outcome, Severity } from './buttons.tsx';
import { Literal } from './literal.tsx';

export type MatchDetail = {
  condition?: string;
  operator?: string;
  path?: string;
  keyword?: string;
  absent?: true;
  every_event?: true;
  conditions?: ConditionHeld[];
  reason?: string;
  detector?: string;
  pattern?: number;
  key?: true;
  field?: 'trace_id';
  threshold?: number;
  window_seconds?: number;
  retry_after_seconds?: number;
  per?: string;
  value?: string;
  check?: string;
  score?: number;
  labels?: string[];
  ms?: number;
};

type PolicyConditions = Pick<WholePolicy, 'conditions'>;

/** Pointers into the payload that matches name. */
export function placesOf({ policy_result: { matches } }: Pick<WholeEvent, 'policy_result'>): string[] {
  const details = matches.map(({ detail }) => detail as MatchDetail);
  const all = details.flatMap(({ path, conditions = [] }) => [path, ...conditions.map((one) => one.path)]);
  return [...new Set(all.filter((path): path is string => path !== undefined))];
}

type WhyProps = {
  event: Pick<WholeEvent, 'policy_result' | 'agent_id'>;
  /** It stands beside the approval that it names. */
  isOfApproval?: boolean;
};

export function Why({ event, isOfApproval = false }: WhyProps) {
  const { outcome, reason, policy_id: decided, matches, approval_id: approval } = event.policy_result;
  return (
    <section class="why" aria-label="Why">
      <h3>
        Why <Outcome outcome={outcome} />
      </h3>
      <p>{explanationOf(outcome, reason, matches.length)}</p>
      {reason === 'agent_inactive' && (
        <p>
          <a href={hrefOf('agent', { id: event.agent_id })}>Look at the agent</a>
        </p>
      )}
      {approval !== undefined && !isOfApproval && (
        <p>
          <a href={hrefOf('approvals', { id: approval })} title={approval}>
            Its approval
          </a>
        </p>
      )}
      {matches.length > 0 && (
        <ul class="matches">
          {deciderFirst(matches, decided).map((match) => (
            <Match key={match.policy_id} match={match} decided={match.policy_id === decided} />
          ))}
        </ul>
      )}
      {event.policy_result.checks !== undefined && (
        <ul aria-label="Checks that were asked">
          {event.policy_result.checks.map((one) => (
            <Said key={one.check + (one.fields ?? []).join()} {...one} />
          ))}
        </ul>
      )}
      {event.policy_result.shadow !== undefined && <Shadows judged={event.policy_result.shadow} />}
    </section>
  );
}

/** Those that only recorded something stand below the one by which it was blocked, or waits. */
export function deciderFirst(matches: readonly PolicyMatch[], decided: string | null | undefined): PolicyMatch[] {
  return [...matches].sort((a, b) => Number(b.policy_id === decided) - Number(a.policy_id === decided));
}

/** The verdicts of shadows: policies that are only tried. */
function Shadows({ judged }: { judged: readonly ShadowJudged[] }) {
  return (
    <>
      <h4>Shadows, which decided nothing</h4>
      <ul class="matches">
        {judged.map((one) => (
          <li key={one.policy_id}>
            <Shadow {...one} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Shadow({ policy_id: id, revision, would }: ShadowJudged) {
  const { value: policy } = usePolicy(id);
  return (
    <>
      <a href={hrefOf('policies', { id, tab: 'report' })}>
        <Literal text={policy?.name ?? id} />
      </a>{' '}
      <span class="quiet">revision {revision}</span> {WOULD[would]}
    </>
  );
}

const WOULD: Record<string, string> = {
  blocked: 'would have blocked it',
  pending: 'would have asked a person',
  matched: 'would have recorded a match',
  not_matched: 'would not have matched',
  skipped: 'was not judged: it was too much work, or its counters did not answer',
};

function explanationOf(outcome: string, reason: string | null, matches: number): string {
  if (reason === 'agent_inactive') return 'The agent is switched off: whatever it sends is blocked and recorded.';
  if (outcome === 'pending') return 'A policy asks for an approval, and there is no decision yet.';
  if (reason === 'approval') return `A person decided, or the time for it was over: the event is ${outcome}.`;
  if (outcome === 'blocked') return 'A policy blocked it.';
  return matches === 0 ? 'No policy matched.' : 'The policies that matched only record or alert.';
}

/** `isDraft`: of a policy that is not kept, so there is nothing to read about it. */
export function Match({
  match,
  decided,
  isDraft = false,
}: {
  match: PolicyMatch;
  decided: boolean;
  isDraft?: boolean;
}) {
  const { policy, judged, isOld } = useJudgedBy(isDraft ? undefined : match);
  return (
    <li class={decided ? 'decided' : ''}>
      <p>
        {decided && <strong class="badge">decided</strong>}{' '}
        {isDraft ? (
          <Literal text={match.name} />
        ) : (
          <a href={hrefOf('policies', { id: match.policy_id })}>
            <Literal text={match.name} />
          </a>
        )}{' '}
        <span class="quiet">
          {!isDraft && `revision ${match.revision}`}
          {isOld && (
            <>
              , now {policy === undefined ? 'deleted' : `at ${policy.revision}`} (
              <a href={hrefOf('policies', { id: match.policy_id, tab: 'revisions', revision: String(match.revision) })}>
                what it said
              </a>
              )
            </>
          )}
          {isDraft ? '' : ' · '}
          {match.type} · {match.actions.join(', ')}
        </span>{' '}
        <Severity severity={match.severity} />
      </p>
      {match.description !== undefined && (
        <p class="quiet">
          Told to the agent: <Literal text={match.description} />
        </p>
      )}
      <Reasons detail={match.detail as MatchDetail} policy={judged} />
    </li>
  );
}

/** `judged`: the policy at the revision that judged; undefined: not known. `policy`: as it is. */
function useJudgedBy(match: PolicyMatch | undefined) {
  const present = usePolicy(match?.policy_id);
  const policy = present.value;
  const isSame = policy?.revision === match?.revision;
  const isGone = present.error?.status === 404 && !isBound(); // to a key of one agent, others' policies are not there
  const isOld = match !== undefined && !isSame && (policy !== undefined || isGone);
  const revision = useRevision(isOld ? match.policy_id : undefined, match?.revision);
  const judged = isSame ? policy : (revision.value?.policy ?? undefined);
  return { policy, judged, isOld, waiting: present.waiting || revision.waiting };
}

/**
 * Stands unfolded where a policy changed what is read. Where the policy cannot be read, the marks in the payload say
 * it.
 */
export function Redaction({ match, payload }: { match: PolicyMatch; payload: string | undefined }) {
  const { judged, waiting } = useJudgedBy(match);
  if (waiting) return null;
  const isRedacted = judged === undefined ? payload?.includes('[redacted:') : redacts(judged);
  if (isRedacted !== true) return null;
  return (
    <p class="judged redacted">
      Redacted by{' '}
      <a href={hrefOf('policies', { id: match.policy_id })}>
        <Literal text={match.name} />
      </a>
      , which found {foundIn(match.detail as MatchDetail)}
    </p>
  );
}

function redacts(policy: PolicyConditions): boolean {
  return termOf(policy, 'redact') === 'true';
}

function foundIn({ detector, pattern, key, field, path }: MatchDetail) {
  return (
    <>
      {detector ?? `pattern ${pattern}`}
      {key ? ' in the name of a key' : ''}
      {field === undefined ? '' : ' in the trace id'} <Place path={path} />
    </>
  );
}

/** The conditions that held, and where. `policy`: its conditions, where they are known. */
export function Reasons({ detail, policy }: { detail: MatchDetail; policy?: PolicyConditions | undefined }) {
  const held = detail.conditions ?? (detail.condition === undefined ? [] : [detail as ConditionHeld]);
  return (
    <ul>
      {detail.reason !== undefined && detail.check === undefined && <li>{FAILED[detail.reason] ?? detail.reason}</li>}
      {detail.check !== undefined && <Said {...detail} check={detail.check} />}
      {detail.every_event && <li>It has no conditions and matches every event.</li>}
      {detail.threshold !== undefined && (
        <li>
          More than {detail.threshold.toLocaleString('en')} events in {detail.window_seconds} s for each{' '}
          <Literal text={detail.per ?? ''} />
          {detail.value === undefined ? '' : '; here it is '}
          {detail.value !== undefined && (
            <code>
              <Literal text={detail.value} />
            </code>
          )}
          . There was room again after {detail.retry_after_seconds} s.
        </li>
      )}
      {(detail.detector !== undefined || detail.pattern !== undefined) && (
        <li>
          Found: {foundIn(detail)}
          {policy !== undefined && redacts(policy) && '. What was found is redacted in everything that is kept.'}
        </li>
      )}
      {held.map((one) => (
        <Held key={one.condition + (one.operator ?? '')} held={one} policy={policy} />
      ))}
    </ul>
  );
}

type CheckSaid = Pick<MatchDetail, 'score' | 'labels' | 'ms' | 'reason'> & { check: string };

/** The answer of a check outside, or why there is none. */
function Said({ check, score, labels = [], ms, reason }: CheckSaid) {
  return (
    <li>
      The check <Literal text={check} />{' '}
      {reason === undefined ? 'answered' : `said nothing (${UNSAID[reason] ?? reason}), and each policy says what then`}{' '}
      after {ms} ms
      {score === undefined ? '' : `; score ${score}`}
      {labels.length > 0 && (
        <>
          ; <Literal text={labels.join(', ')} />
        </>
      )}
    </li>
  );
}

const UNSAID: Record<string, string> = {
  timeout: 'it was not in time',
  error: 'an error, or an answer that cannot be read',
  overload: 'there was no room, or it failed too often',
  too_large: 'the text is over 64 KiB',
};

export function Unmet({ conditions }: { conditions: readonly ConditionUnmet[] }) {
  if (conditions.length === 0) return null;
  return (
    <ul aria-label="Conditions that did not hold">
      {conditions.map(({ condition, operator, absent }) => (
        <li key={condition + (operator ?? '')}>
          <code>
            <Literal text={condition} />
          </code>
          {operator && `: “${OPERATOR_WORDS[operator] ?? operator}”`} does not hold{absent ? ': no value is there' : ''}
        </li>
      ))}
    </ul>
  );
}

const FAILED: Record<string, string> = {
  budget: 'It counts as matched: the work that one event may cost was used up.',
  expression_error: 'It counts as matched: its expression failed on this event.',
  not_a_number: 'It counts as matched: it compares a number, and something else is there.',
  not_json: 'It counts as matched: it leads into a text that begins like JSON and cannot be read.',
  error: 'It counts as matched: evaluating it failed by a mistake of the service.',
};

/** The value at a key of the conditions, as it was written. */
function termOf(policy: PolicyConditions, ...keys: string[]): string | undefined {
  const layout = layOut(policy.conditions.text);
  const line = lineAt(layout, keys.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''));
  return line < 0 ? undefined : valueAt(layout, line);
}

function Held({ held, policy }: { held: ConditionHeld; policy: PolicyConditions | undefined }) {
  const asked = policy === undefined ? undefined : termOf(policy, held.condition);
  const operand =
    policy === undefined || held.operator === undefined
      ? asked
      : held.entry === undefined
        ? (termOf(policy, held.condition, held.operator) ?? asked)
        : termOf(policy, held.condition, held.operator, String(held.entry));
  const isLong = held.condition === 'payload_schema';
  return (
    <li>
      <code>
        <Literal text={held.condition} />
      </code>{' '}
      {held.operator === undefined ? '' : (OPERATOR_WORDS[held.operator] ?? held.operator)}
      {held.keyword === undefined ? '' : `does not satisfy ${held.keyword}`}{' '}
      {operand !== undefined && !isLong && (
        <code>
          <Literal text={readableShort(operand)} lines />
        </code>
      )}
      {held.absent ? ' (no value is there) ' : ' '}
      <Place path={held.path} />
    </li>
  );
}

function Place({ path }: { path: string | undefined }) {
  if (path === undefined) return null;
  return (
    <>
      at <code class="place">{path === '' ? 'the whole payload' : <Literal text={path} />}</code>
    </>
  );
}
