// What is sent and judged in every line, unless the line asks about just that: events of about 500 bytes as a tool call
// of a support agent is, and five policies: a block list of tools, five patterns over every string, a rate counter that
// all agents share, two that do not match. The baseline is given the very same.
import { DETECTOR_NAMES, type PolicyType } from '../schemas/closed-sets.ts';

export type PolicyOrder = {
  name: string;
  type: PolicyType;
  conditions: Record<string, unknown>;
  actions: string[];
  mode?: 'shadow';
};

export const BATCH_EVENTS = 100;

export const PATTERNS = [
  '<INFORMATION>',
  'BEGIN PRIVATE KEY',
  'password=[a-z0-9]+',
  'sk-[A-Za-z0-9]{20}',
  'AKIA[0-9A-Z]{16}',
];

export const FIVE_POLICIES: PolicyOrder[] = [
  {
    name: 'tools',
    type: 'block_action',
    conditions: { type: 'tool_call', tool: ['drop_table', 'send_money', 'rm'] },
    actions: ['block'],
  },
  { name: 'patterns', type: 'data_filter', conditions: { patterns: PATTERNS }, actions: ['block'] },
  {
    name: 'rate',
    type: 'rate_limit',
    conditions: { threshold: 1_000_000_000, window: '1m', per: 'account' },
    actions: ['block'],
  },
  {
    name: 'amount',
    type: 'block_action',
    conditions: { type: 'tool_call', 'payload.arguments.amount': { gt: 1_000_000 } },
    actions: ['block', 'alert'],
  },
  {
    name: 'model',
    type: 'block_action',
    conditions: { type: 'completion', model: 'forbidden-model' },
    actions: ['block'],
  },
];

/** One policy of each kind that most accounts have. */
export const PLAIN_SET: PolicyOrder[] = [
  {
    name: 'tools',
    type: 'block_action',
    conditions: { type: 'tool_call', tool: ['send_money', 'drop_table'] },
    actions: ['block'],
  },
  {
    name: 'words',
    type: 'data_filter',
    conditions: {
      patterns: ['<INFORMATION>', 'BEGIN RSA', 'password:\\s*\\S+', 'AKIA[0-9A-Z]{16}', 'ignore (all )?previous'],
    },
    actions: ['log'],
  },
  { name: 'rate', type: 'rate_limit', conditions: { threshold: 1_000_000_000, window: '1m' }, actions: ['block'] },
  {
    name: 'code',
    type: 'block_action',
    conditions: { expression: 'event.type == "error" && has(event.payload.code) && event.payload.code == "E999"' },
    actions: ['block'],
  },
  {
    name: 'form',
    type: 'block_action',
    conditions: {
      type: 'tool_call',
      payload_schema: {
        type: 'object',
        required: ['tool'],
        properties: { tool: { type: 'string', maxLength: 200 } },
      },
    },
    actions: ['log'],
  },
];

const KEY_FORMS = [
  ...[
    'AKIA[0-9A-Z]{16}',
    'ASIA[0-9A-Z]{16}',
    'ghp_[A-Za-z0-9]{36}',
    'glpat-[A-Za-z0-9_-]{20}',
    'AIza[A-Za-z0-9_-]{35}',
  ],
  ...['xox[abps]-[A-Za-z0-9-]{10,}', 'sk_live_[A-Za-z0-9]{24}', 'npm_[A-Za-z0-9]{36}', 'dop_v1_[0-9a-f]{64}'],
  'SG\\.[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}',
];
const PHRASES = ['ignore', 'forget', 'disregard', 'override', 'bypass'].flatMap((verb) =>
  ['all previous', 'your instructions', 'the system prompt', 'every rule', 'your guidelines', 'the policy'].map(
    (what) => `(?i)${verb}\\s+(?:now\\s+)?${what}`,
  ),
);

/** The guard set of a real account: nine detectors, 30 phrases in any case, ten forms of keys, and what else it has. */
export const GUARD_SET: PolicyOrder[] = [
  { name: 'personal', type: 'data_filter', conditions: { detectors: DETECTOR_NAMES, redact: true }, actions: ['log'] },
  { name: 'phrases', type: 'data_filter', conditions: { patterns: PHRASES }, actions: ['block'] },
  { name: 'keys', type: 'data_filter', conditions: { patterns: KEY_FORMS }, actions: ['block', 'alert'] },
  {
    name: 'failed',
    type: 'block_action',
    conditions: { expression: 'event.type == "error" && has(event.payload.code) && event.payload.code == 500' },
    actions: ['alert'],
  },
  {
    name: 'sum',
    type: 'block_action',
    conditions: {
      type: 'tool_call',
      tool: 'send_money',
      expression: 'event.payload.arguments.amount > 100.0 && agent.metadata.team != "finance"',
    },
    actions: ['block'],
  },
  {
    name: 'form',
    type: 'block_action',
    conditions: {
      type: 'tool_call',
      tool: 'create_ticket',
      payload_schema: { type: 'object', required: ['arguments'], properties: { arguments: { required: ['title'] } } },
    },
    actions: ['block'],
  },
  {
    name: 'tools',
    type: 'block_action',
    conditions: { type: 'tool_call', tool: Array.from({ length: 20 }, (_, i) => `forbidden_tool_${i}`) },
    actions: ['block'],
  },
  {
    name: 'rate of an agent',
    type: 'rate_limit',
    conditions: { threshold: 1_000_000_000, window: '1m', per: 'agent' },
    actions: ['block'],
  },
  {
    name: 'rate of a tool',
    type: 'rate_limit',
    conditions: { threshold: 1_000_000_000, window: '1m', per: 'payload.tool' },
    actions: ['block'],
  },
  {
    name: 'amount',
    type: 'require_approval',
    conditions: { type: 'tool_call', tool: 'send_money', 'payload.arguments.amount': { gt: 1_000 } },
    actions: ['alert'],
  },
];

/** As such texts go: parts of sentences that come again, with names, numbers and dates that do not. */
const PARTS = [
  'the passenger asks whether the fare can be refunded',
  'cabin economy, one passenger, two bags',
  'insurance was not taken',
  'the change of schedule came after the booking',
  'the agent looks up the terms of the fare',
  'a certificate is offered in place of the refund',
  'payment was made with the gift card on file',
  'the membership is silver, three free bags',
  'the flight was cancelled by the airline',
  'the return leg has not been flown yet',
  'a basic economy ticket cannot be modified',
  'the difference in price goes to the original card',
  'no seats are left in business on that day',
  'the user confirms with yes',
  'the date of birth of the second traveller is missing',
  'the connection would be forty minutes, too short',
  'the request is outside of what the policy allows',
  'transfer to a human agent was not asked for',
  'the reservation was made less than a day ago',
  'the cheapest option leaves in the early morning',
] as const;
const NAMES = [
  'sofia',
  'mia',
  'raj',
  'noah',
  'liam',
  'chen',
  'ivan',
  'yara',
  'omar',
  'emma',
  'lucas',
  'aarav',
] as const;
const PLACES = ['MCO', 'CLT', 'JFK', 'SFO', 'ORD', 'DFW', 'SEA', 'IAH', 'PHX', 'DEN', 'LAX', 'BOS'] as const;

/** The same for the same seed (mulberry32). */
function randomOf(seed: number): (below: number) => number {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** So many characters, another text for each seed. */
export function sampleText(seed: number, characters: number): string {
  const random = randomOf(seed);
  let text = '';
  while (text.length < characters) {
    const [from, to] = [PLACES[random(PLACES.length)], PLACES[random(PLACES.length)]];
    const date = `2024-0${1 + random(9)}-${10 + random(19)}`;
    text += `Flight HAT${random(1000)} from ${from} to ${to} on ${date}: ${PARTS[random(PARTS.length)]}; `;
    text += `${PARTS[random(PARTS.length)]}, $${random(2000)}. `;
  }
  return text.slice(0, characters);
}

/**
 * About 500 bytes, or more with a longer result. No two are the same: entries of the streams are packed, and copies of
 * one event would take next to no room. Entries of these become three times shorter, those of recorded agent runs about
 * four times.
 */
export function sampleEvent(
  i: number,
  resultCharacters = 236,
): { type: string; trace_id: string; payload: Record<string, unknown> } {
  const random = randomOf(-1 - i);
  const hex = (digits: number) =>
    random(16 ** digits)
      .toString(16)
      .padStart(digits, '0');
  return {
    type: 'tool_call',
    trace_id: `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(6)}${hex(6)}`,
    payload: {
      tool: 'get_reservation_details',
      arguments: {
        reservation_id: `Z${hex(5).toUpperCase()}`,
        user: `${NAMES[random(NAMES.length)]}_${random(10_000)}`,
      },
      result: sampleText(i, resultCharacters),
      status: 'ok',
      tokens_used: 420 + random(500),
    },
  };
}

/** Its arguments are 2 kB of text that is JSON, as providers send the arguments of a call. */
export function eventWithTextInside(i: number): object {
  const { payload, ...event } = sampleEvent(i, 0);
  const inner = { reservation: payload['arguments'], notes: sampleText(i, 1_900) };
  return { ...event, payload: { ...payload, arguments: JSON.stringify(inner) } };
}

/**
 * Different ones of a load: a front puts up to ten batches into one entry, and they must not be each other's copies.
 */
const BODIES = 64;

/** One event each, or a batch of so many. */
export function bodiesOf(events: number, event: (i: number) => object = sampleEvent): string[] {
  return Array.from({ length: BODIES }, (_, body) => {
    const own = Array.from({ length: events }, (_, i) => event(body * events + i));
    return JSON.stringify(events === 1 ? own[0] : { events: own });
  });
}

/** How the two kinds of load are sent. */
export const KINDS = [
  { kind: 'single', connections: 64, events: 1 },
  { kind: 'batch', connections: 32, events: BATCH_EVENTS },
] as const;
export type Kind = (typeof KINDS)[number];

export function eventsPath(agent: string, events: number): string {
  return `/v1/agents/${agent}/events${events === 1 ? '' : '/batch'}`;
}

export type Sender = { agent: string; key: string };

/** Requests to send in turn, and the bodies that they name by index. */
export type Requests = {
  requests: { path: string; key: string; body: number }[];
  bodies: string[];
  connections: number;
  /** Mean over the requests. */
  eventsPerRequest: number;
};

/** Every sender in turn, every body in turn. */
export function requestsOf(
  senders: readonly Sender[],
  { events, connections }: { events: number; connections: number },
  bodies = bodiesOf(events),
): Requests {
  const requests = Array.from({ length: Math.max(senders.length, bodies.length) }, (_, i) => {
    const { agent, key } = senders[i % senders.length]!;
    return { path: eventsPath(agent, events), key, body: i % bodies.length };
  });
  return { requests, bodies, connections, eventsPerRequest: events };
}

export function sendersOf(agents: readonly string[], key: string): Sender[] {
  return agents.map((agent) => ({ agent, key }));
}
