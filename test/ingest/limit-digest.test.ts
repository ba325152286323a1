// What a summary says of a rate limit that is over: which counter and which window, so that it can be notified once a
// window.
import t from 'tap';
import type { EventSummary, MatchSummary } from '../../schemas/entry.ts';
import { encodeEvents } from '../../src/ingest/encode.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import type { Decision } from '../../src/policy/judgement.ts';
import { AGENT, decideOn, event, policy } from '../policy/support.ts';

function summaryOf(decision: Decision, agentId = AGENT.id, account = 'acc_1'): EventSummary {
  const submission = {
    type: 'tool_call' as const,
    payload: {},
    payloadText: '{}',
    traceId: undefined,
    occurredAt: 1e12,
  };
  const agent = { ...AGENT, id: agentId };
  const { summaries } = encodeEvents([
    { account, agent, id: 'evt_1', submission, receivedAt: 1e12, decision, requestId: 'r' },
  ]);
  return JSON.parse(summaries[0]!) as EventSummary;
}

const call = (tool: string) => event('tool_call', { tool });
const limitsOf = ({ matches }: EventSummary): MatchSummary['limit'][] => (matches ?? []).map(({ limit }) => limit);

t.test('a limit that is over names its counter and its window', (t) => {
  const noted = policy('block_action', { tool: 'rm' }, ['alert']);
  const perAgent = policy('rate_limit', { threshold: 5, window: '1m' });
  const perTool = policy('rate_limit', { threshold: 5, window: '1h', per: 'payload.tool' }, ['alert']);
  const rules = new RuleSet([noted, perAgent, perTool]);
  const both = decideOn(rules, call('rm'), [42, 42]);
  const [plain, agents, tools] = limitsOf(summaryOf(both));
  t.equal(plain, undefined);
  t.match(agents, { counter: /^[\w-]{16}$/, windowMs: 60_000 });
  t.match(tools, { counter: /^[\w-]{16}$/, windowMs: 3_600_000 });
  t.notMatch(JSON.stringify(limitsOf(summaryOf(both))), /rm|pol_/, 'and not what it counts');

  const [first, second] = [decideOn(rules, call('a'), [42, 42]), decideOn(rules, call('b'), [42, 42])];
  const counters = (decision: Decision, agent?: string, account?: string) =>
    limitsOf(summaryOf(decision, agent, account)).map((limit) => limit?.counter);
  t.same(counters(first), counters(first), 'the same counter, the same name');
  const [ofAgent, ofTool] = counters(first);
  t.same(counters(second), [ofAgent, counters(second)[1]]);
  t.not(counters(second)[1], ofTool, 'another value, another counter');
  t.not(counters(first, 'agt_2')[0], ofAgent, 'another agent, another counter');
  t.equal(counters(first, 'agt_2')[1], ofTool, 'but one that is shared by all agents');
  t.not(counters(first, AGENT.id, 'acc_2')[1], ofTool, 'never by accounts');
  t.not(ofAgent, ofTool, 'another policy, another counter');
  t.end();
});

t.test('a limit that is not over says nothing', (t) => {
  const rules = new RuleSet([
    policy('rate_limit', { threshold: 5, window: '1m' }),
    policy('rate_limit', { threshold: 9, window: '1m' }),
  ]);
  t.equal(summaryOf(decideOn(rules, call('a'), [0, 0])).matches, undefined);
  const second = summaryOf(decideOn(rules, call('a'), [0, 42]));
  t.equal(second.matches!.length, 1);
  t.equal(second.matches![0]!.limit!.windowMs, 60_000);
  const matched = summaryOf(decideOn(new RuleSet([policy('block_action', { tool: 'a' })]), call('a')));
  t.notOk('limit' in matched.matches![0]!);
  t.end();
});
