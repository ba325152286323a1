// What is sent and judged in every line, unless the line asks about just that: events of about 500 bytes as a tool call of a
// support agent is, and five policies: a block list of tools, five patterns over every string, a rate counter that all
// agents share, two that do not match. The baseline is given the very same.

export type PolicyOrder = {
  name: string;
  type: 'block_action' | 'data_filter' | 'rate_limit';
  conditions: Record<string, unknown>;
  actions: string[];
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

/** About 500 bytes. */
export function sampleEvent(i: number): { type: string; trace_id: string; payload: Record<string, unknown> } {
  return {
    type: 'tool_call',
    trace_id: `0b7c1c1e-0000-4000-8000-${String(i).padStart(12, '0')}`,
    payload: {
      tool: 'get_reservation_details',
      arguments: { reservation_id: `ZFA04${i % 10}`, user: 'sofia_kim_7287' },
      result: `Flight HAT${i} from MCO to CLT on 2024-05-22, cabin economy, one passenger, two bags, insurance not taken. The passenger asks whether the fare can be refunded after the change of schedule; the agent looks up the terms of the fare.`,
      status: 'ok',
      tokens_used: 420 + i,
    },
  };
}

/** One event, or a batch of so many. */
export function bodyOf(events: number): string {
  if (events === 1) return JSON.stringify(sampleEvent(0));
  return JSON.stringify({ events: Array.from({ length: events }, (_, i) => sampleEvent(i)) });
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
