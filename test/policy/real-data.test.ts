// The recorded work of agents, judged: policies match exactly as many events as they should, and leave the payloads
// alone.
import t from 'tap';
import { DETECTOR_NAMES } from '../../schemas/closed-sets.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import type { EventView } from '../../src/policy/judgement.ts';
import { decideOn, policy, recordedEvents } from './support.ts';

const events = recordedEvents();

const EXPECTED: [number, ReturnType<typeof policy>][] = [
  [
    28,
    policy('block_action', {
      type: 'tool_call',
      tool: 'send_money',
      'payload.arguments.recipient': 'US133000000121212121212',
    }),
  ],
  [
    22,
    policy('block_action', {
      type: 'tool_call',
      tool: 'send_email',
      'payload.arguments.recipients': ['jay@google.com', 'mark.black-2134@gmail.com'],
    }),
  ],
  [
    27,
    policy('block_action', {
      type: 'tool_call',
      tool: 'get_webpage',
      'payload.arguments.url': { contains: 'true-informations.com' },
    }),
  ],
  [195, policy('data_filter', { patterns: ['<INFORMATION>'] })],
  [
    40,
    policy('block_action', {
      type: 'completion',
      'payload.response': { matches: '[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}' },
    }),
  ],
  [
    69,
    policy('require_approval', {
      type: 'tool_call',
      tool: ['book_reservation', 'cancel_reservation', 'send_certificate'],
    }),
  ],
  [
    337,
    policy('data_filter', {
      type: 'tool_call',
      fields: ['payload.result'],
      patterns: ['(?:credit_card|gift_card|certificate)_[0-9]{7}'],
    }),
  ],
  [34, policy('block_action', { type: 'completion', tokens_used: { gt: 5000 } })],
];

t.test(
  'policies match exactly the events they should, alone and together',
  { skip: events === null && 'no recorded events beside the project' },
  async (t) => {
    const together = new RuleSet(EXPECTED.map(([, one]) => one));
    const counts = new Map<string, number>();
    const unreadable = new Set<EventView>();
    for (const event of events!) {
      for (const { policy_id, detail } of decideOn(together, event).matches) {
        if ('reason' in detail && detail.reason === 'not_json') {
          unreadable.add(event);
          continue;
        }
        counts.set(policy_id, (counts.get(policy_id) ?? 0) + 1);
        if ('reason' in detail) t.fail(`${policy_id} ${JSON.stringify(detail)}`);
      }
    }
    t.equal(unreadable.size, 3, 'three of 9,218 hold a text that begins like JSON and cannot be read');
    for (const [expected, one] of EXPECTED) {
      const alone = new RuleSet([one]);
      t.equal(
        events!.filter((event) => !unreadable.has(event) && decideOn(alone, event).matches.length > 0).length,
        expected,
        JSON.stringify(one.conditions),
      );
      t.equal(counts.get(one.id), expected, 'together');
    }
  },
);

t.test(
  'detectors settle every recorded event, and redaction leaves sound payloads without a finding',
  { skip: events === null && 'no recorded events beside the project' },
  async (t) => {
    const rules = new RuleSet([
      policy('data_filter', { detectors: [...DETECTOR_NAMES], patterns: ['(?i)credit card'], redact: true }),
    ]);
    let found = 0;
    for (const event of events!) {
      const { matches, redacted } = decideOn(rules, event);
      if (matches.length === 0) continue;
      found++;
      const { reason } = matches[0]!.detail as { reason?: string };
      t.ok(reason === undefined || reason === 'not_json', 'within the budget');
      const copy = redacted!.payloadText;
      const again = { ...event, payload: JSON.parse(copy), payloadText: copy };
      if (decideOn(rules, again).matches.length > 0) t.fail(copy);
    }
    t.ok(found > 500, `${found} events`);
  },
);
