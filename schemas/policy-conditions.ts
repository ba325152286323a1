// What `conditions` may hold, by the type of the policy, for the API's description (docs/policy-reference.md).
// These forms describe and do not validate. A policy is checked in two stages: its outer form (schemas/policy.ts), then
// its meaning, by the policy engine when it compiles it. A union's mistakes come out of a validator as one heap of the
// mistakes of all its members; the engine names the one key that is wrong, and says what to write instead.
// Invariant: whatever the engine takes fits its form here. test/http/openapi.test.ts holds the two against each other.

import Type, { type TSchema } from 'typebox';
import { DETECTOR_NAMES, ON_CHECK_FAILURE, type PolicyType } from './closed-sets.ts';
import { COMMAND_ENTRIES_MAX } from './condition.ts';
import { component } from './schema-keywords.ts';

export const ConditionScalar = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()], {
  description: 'A value that a field of an event can equal. Text is compared decoded and case-sensitive.',
  examples: ['send_money'],
});

const Scalars = (description: string) => Type.Array(ConditionScalar, { minItems: 1, description });
const Text = (description: string) => Type.String({ minLength: 1, description });

const Alternatives = (description: string) =>
  Type.Optional(
    Type.Union(
      [
        Type.String({ minLength: 1, maxLength: 500 }),
        Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1 }),
      ],
      {
        description: `${description} Globs (\`*\` any characters, \`?\` one), any of which, as a list or with \`|\` between them.`,
      },
    ),
  );
const Demands = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1, description }));
const OneOrMore = (entry: TSchema, description: string) =>
  Type.Union([entry, Type.Array(entry, { minItems: 1, maxItems: COMMAND_ENTRIES_MAX })], { description });

/** One entry of `shell` (src/policy/commands/shell-condition.ts). */
export const ShellEntry = Type.Object(
  {
    command: Alternatives('Name of the command, without its folder.'),
    subcommand: Alternatives('Its first operand, as `push` of `git -C dir push`.'),
    flags: Demands(
      'Flags without their dashes, all of which it has, together or apart; `|` between names of one: `r|R|recursive`.',
    ),
    operands: Demands('Globs, each of which one of its operands is like; `|` between alternatives.'),
    last_operand: Alternatives('Its last operand.'),
    redirect_to: Alternatives('Instead of `command`: a file that output is written to.'),
    output_of: Alternatives('Instead of `command`, with `run_by`: commands whose output a shell or interpreter runs.'),
    run_by: Alternatives('Shells and interpreters that run the output.'),
    fork_bomb: Type.Optional(
      Type.Literal(true, {
        description: 'Instead of `command`: a function calls itself in a pipe or in the background.',
      }),
    ),
  },
  {
    additionalProperties: false,
    description:
      'Something that a command line does: exactly one of `command`, `redirect_to`, `output_of`, `fork_bomb`.',
    examples: [{ command: 'rm', flags: ['r|R|recursive', 'f|force'] }],
  },
);

/** One entry of `sql` (src/policy/commands/sql-condition.ts). */
export const SqlEntry = Type.Object(
  {
    statement: Type.Union(
      [
        Type.String({ minLength: 1, maxLength: 500 }),
        Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1 }),
      ],
      {
        description:
          'Of `drop`, `truncate`, `delete`, `update`, `alter`, any of which, as a list or with `|` between them.',
      },
    ),
    object: Alternatives('What is dropped: `table`, `database`, `schema`, …'),
    name: Alternatives('Its name as the statement has it, without quotes.'),
    action: Alternatives('Of `alter`: what is done to the table, such as `drop column`.'),
    where: Type.Optional(
      Type.Literal('none', {
        description: 'Of `delete` and `update`: all rows, since there is no WHERE, or one that is always true.',
      }),
    ),
  },
  {
    additionalProperties: false,
    description: 'A statement of SQL.',
    examples: [{ statement: 'drop', object: 'table|database' }],
  },
);

/** One entry an operator of condition.ts. */
export const ConditionOperators = Type.Object(
  {
    eq: Type.Optional(component('ConditionScalar', 'The field equals this.')),
    ne: Type.Optional(
      component('ConditionScalar', 'The field does not equal this. Holds where there is no such field.'),
    ),
    in: Type.Optional(Scalars('The field equals one of these.')),
    not_in: Type.Optional(Scalars('The field equals none of these. Holds where there is no such field.')),
    gt: Type.Optional(Type.Number({ description: 'The field is a number greater than this.' })),
    gte: Type.Optional(Type.Number({ description: 'The field is a number greater than or equal to this.' })),
    lt: Type.Optional(Type.Number({ description: 'The field is a number less than this.' })),
    lte: Type.Optional(Type.Number({ description: 'The field is a number less than or equal to this.' })),
    contains: Type.Optional(Text('The field, or a string inside it, contains this text.')),
    starts_with: Type.Optional(Text('The field, or a string inside it, starts with this text.')),
    ends_with: Type.Optional(Text('The field, or a string inside it, ends with this text.')),
    matches: Type.Optional(
      Text('The field, or a string inside it, matches this RE2 pattern, for example `(?i)refund`.'),
    ),
    glob: Type.Optional(
      Text('The field, or a string inside it, is this as a whole: `*` stands for any characters, `?` for one.'),
    ),
    shell: Type.Optional(
      OneOrMore(
        component('ShellEntry'),
        'The field, a string inside it, or a list of words inside it, does one of these things when a shell runs it.',
      ),
    ),
    sql: Type.Optional(
      OneOrMore(
        component('SqlEntry'),
        'The field, or a string inside it, holds a statement of SQL that one of these describes.',
      ),
    ),
    exists: Type.Optional(
      Type.Boolean({
        description: 'true: the field is there. false: it is not; then no other operator may stand beside it.',
      }),
    ),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    description: 'Operators on one field. All of them must hold for one and the same value.',
    examples: [{ gt: 1000, lte: 5000 }],
  },
);

export const FieldCondition = Type.Union(
  [ConditionScalar, Scalars('The field equals one of these.'), ConditionOperators],
  {
    description:
      'What a field of the event must be: a value that it equals, a list of values of which it equals one, or operators. Where the path meets an array, any element will do.',
    examples: ['send_money', ['send_money', 'pay'], { gt: 1000 }],
  },
);

const Duration = (max: string, description: string) =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.String({ pattern: '^[1-9][0-9]{0,8}[smhd]$' })], {
    description: `${description} Whole seconds, or a number with \`s\`, \`m\`, \`h\` or \`d\`: \`30s\`, \`5m\`, \`1h\`, \`1d\`. At most ${max}.`,
    examples: ['1h', 60],
  });
const Texts = (description: string, max: number, items: TSchema) =>
  Type.Array(items, { minItems: 1, maxItems: max, description });

const OF_ALL = {
  expression: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 4_096,
      description:
        'A CEL expression over `event` and `agent` that must be true, of type bool. One that fails on an event counts as a match, with `detail.reason` `expression_error`.',
      examples: ['event.payload.amount > 1000.0 && agent.metadata.team != "finance"'],
    }),
  ),
  payload_schema: Type.Optional(
    component('PayloadSchema', 'Matches where the payload does **not** satisfy this schema.'),
  ),
};

const Score = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1, description }));
const OnFailing = (when: string) =>
  Type.Enum([...ON_CHECK_FAILURE], {
    description: `Where the check ${when}: \`match\`, \`skip\` (the policy does not match), or \`pending\` (a person decides within an hour, else it is denied). There is no default.`,
    examples: ['match'],
  });

const OF_TYPE = {
  block_action: {},
  rate_limit: {
    threshold: Type.Integer({
      minimum: 1,
      maximum: 1_000_000_000,
      description: 'So many matching events may come in one window; the next one is over.',
      examples: [100],
    }),
    window: Duration('1 day', 'Length of the sliding window, which ends with the event.'),
    per: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'What is counted apart: `agent` (where it is left out), `account`, or a path into the event such as `payload.tool`.',
        examples: ['payload.tool'],
      }),
    ),
  },
  data_filter: {
    patterns: Type.Optional(
      Texts(
        'RE2 patterns to look for in strings. `patterns` or `detectors` must be there.',
        50,
        Type.String({ minLength: 1, maxLength: 512 }),
      ),
    ),
    detectors: Type.Optional(
      Texts(
        'Kinds of personal data and secrets to look for. `patterns` or `detectors` must be there.',
        DETECTOR_NAMES.length,
        Type.Enum([...DETECTOR_NAMES]),
      ),
    ),
    regions: Type.Optional(
      Texts(
        'Countries, by their ISO 3166-1 code, whose phone numbers the detector `phone` finds as they are dialled there, too.',
        20,
        Type.String({ pattern: '^[A-Z]{2}$', examples: ['FR'] }),
      ),
    ),
    fields: Type.Optional(
      Texts(
        'Paths into the payload to look at, such as `payload.prompt`. Left out: every string of the payload, keys too.',
        50,
        Type.String({ minLength: 1 }),
      ),
    ),
    redact: Type.Optional(
      Type.Boolean({
        description:
          'true: what is kept of the event has `[redacted:NAME]` in the place of what was found; the answer alone still echoes the payload. Left out: false.',
      }),
    ),
  },
  require_approval: {
    timeout: Type.Optional(Duration('30 days', 'For how long the event waits for a decision. Left out: `1h`.')),
    on_timeout: Type.Optional(
      Type.Enum(['deny', 'approve'], {
        description: 'What becomes of the event if there is no decision in time. Left out: `deny`.',
      }),
    ),
  },
  sequence: {
    within: Duration('1 day', 'Length of the window, which ends with the event: what was before counts inside it.'),
    after: Type.Optional(
      Type.Array(component('SequenceStep'), {
        minItems: 1,
        maxItems: 3,
        description: 'What must have occurred before, in this order. `after` or `unless` must be there.',
      }),
    ),
    unless: Type.Optional(component('SequenceStep', 'What must not have occurred before. `outcome` is not for it.')),
    per: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'In whose events it is looked for: `agent` (where it is left out), `trace`, `account`, or a path such as `payload.customer`. An event without its trace, or without a value there, belongs to all that its agent does.',
        examples: ['trace'],
      }),
    ),
    same: Type.Optional(
      Type.Record(Type.String(), Type.String({ minLength: 1 }), {
        minProperties: 1,
        maxProperties: 3,
        description:
          'Paths whose values must be equal: in the event (key) and in each step (value). Kept as a keyed hash.',
        examples: [{ 'payload.arguments.account': 'payload.arguments.account' }],
      }),
    ),
    at_least: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100,
        description: 'How often the last step must have occurred. Left out: 1.',
      }),
    ),
    sum: Type.Optional(
      Type.Object(
        {
          path: Type.String({ minLength: 1, description: 'Where the number is, in the last step and in the event.' }),
          gt: Type.Number({ minimum: 0, description: 'The total in the window, with the event, is more than this.' }),
        },
        {
          additionalProperties: false,
          description: 'Matches where numbers of the last step and of the event add up to more. Not beside `at_least`.',
          examples: [{ path: 'payload.arguments.amount', gt: 10_000 }],
        },
      ),
    ),
  },
  external_check: {
    check: Type.String({ minLength: 1, description: 'The name of a check (`/v1/checks`).', examples: ['guard'] }),
    fields: Type.Optional(
      Texts(
        'Paths into the payload whose text is sent. Left out: all text of the payload.',
        20,
        Type.String({ minLength: 1, examples: ['payload.text'] }),
      ),
    ),
    when: Type.Optional(
      Type.Object(
        {
          score: Type.Optional(
            Type.Object(
              {
                gt: Score('It is greater than this.'),
                gte: Score('It is greater than or equal to this.'),
                lt: Score('It is less than this.'),
                lte: Score('It is less than or equal to this.'),
              },
              { additionalProperties: false, minProperties: 1, description: 'What the score must be.' },
            ),
          ),
          labels: Type.Optional(Texts('One of these labels must be there.', 50, Type.String({ minLength: 1 }))),
        },
        {
          additionalProperties: false,
          minProperties: 1,
          description:
            "The verdict that matches. A check that gives no score where one is asked for has failed. Left out: the check's own word.",
          examples: [{ score: { gte: 0.8 } }],
        },
      ),
    ),
    redact: Type.Optional(
      Type.Boolean({
        description:
          'true: what is kept of an event that matches has `[redacted:check]` in the place of what the check found; where it gave no place, or said nothing, in that of all text that it was asked about. Not beside `mode` or `pending`. Left out: false.',
      }),
    ),
    mode: Type.Optional(
      Type.Literal('watch', {
        description:
          'The check is asked after the reply: nothing waits for it and nothing is stopped. What it says is an event of its own (`custom`, `kind` `check_verdict`). Left out: the reply waits.',
      }),
    ),
    on_timeout: OnFailing('does not answer in time'),
    on_error: OnFailing('answers with an error or what cannot be read, or where more than 64 KiB would be sent'),
    on_overload: OnFailing('has no room, or its breaker is open'),
  },
  budget: {
    limit: Type.Union(
      [
        Type.String({ pattern: '^[0-9]{1,9}([.][0-9]{1,6})? [A-Z]{3}$' }),
        Type.Object(
          { tokens: Type.Integer({ minimum: 1, description: 'So many tokens.' }) },
          { additionalProperties: false },
        ),
        Type.Object(
          { events: Type.Integer({ minimum: 1, description: 'So many calls.' }) },
          { additionalProperties: false },
        ),
      ],
      {
        description:
          'What may be used up in one window: money in the currency of the price table, tokens, or calls (`events`).',
        examples: ['25.00 USD', { tokens: 200_000 }],
      },
    ),
    window: Type.Union(
      [Type.Integer({ minimum: 60 }), Type.String({ pattern: '^([1-9][0-9]{0,8}[smhd]|day|week|month)$' })],
      {
        description:
          'A duration from 1 minute to 30 days (`1h`, `1d`): the window slides, in sixtieths. Or `day`, `week` (from Monday), `month` of `zone`.',
        examples: ['day', '1h'],
      },
    ),
    zone: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'Time zone of the IANA database, of `day`, `week` and `month`. Left out: `UTC`.',
        examples: ['Europe/Berlin'],
      }),
    ),
    per: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'What has a budget of its own: `agent` (where it is left out), `account`, `trace`, or a path into the event such as `payload.user`.',
        examples: ['agent'],
      }),
    ),
    estimate: Type.Optional(
      Type.Enum(['expected', 'worst'], {
        description:
          'What is reserved for a call. `worst`: its input and all output that it allows; the limit is never passed. `expected` (where it is left out): its input and as much output as 95 of 100 calls of the agent and model had; the limit may be passed by what was too low.',
      }),
    ),
    hold: Type.Optional(
      Duration('1 hour', 'How long a reservation lives that nothing settles, at least 10 seconds. Left out: `10m`.'),
    ),
    warn_at: Type.Optional(
      Type.Array(Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1 }), {
        maxItems: 5,
        description: 'Shares of the limit at which `budget_warning` is raised, each once a window. Left out: none.',
        examples: [[0.8, 0.95]],
      }),
    ),
    unpriced: Type.Optional(
      Type.Enum(['block', 'allow'], {
        description:
          'What becomes of a call whose cost cannot be known, of a limit of money. `block` (where it is left out): the policy matches. `allow`: nothing is reserved or charged for it.',
      }),
    ),
  },
} satisfies Record<PolicyType, Record<string, TSchema>>;

/** Words of these types are no bare names in others. Those of `sequence` came when such were in use. */
const OWNERS = ['rate_limit', 'data_filter', 'require_approval'] as const satisfies readonly PolicyType[];

/** Keys of `conditions` that are no fields to match, by type; those of OF_ALL are reserved in every type. */
export const RESERVED_KEYS = Object.fromEntries(
  Object.entries(OF_TYPE).map(([type, keys]) => [type, [...Object.keys(keys), ...Object.keys(OF_ALL)]]),
) as Record<PolicyType, string[]>;

/**
 * `additionalProperties` does not reach the keys that are named, but generators of types take it for all keys at once.
 * That `patternProperties` says again what `payload_schema` is makes them write types that a policy fits.
 */
function conditionsOf(type: PolicyType, description: string, example: object): TSchema {
  const others = new Set(OWNERS.flatMap((owner) => RESERVED_KEYS[owner]));
  for (const own of RESERVED_KEYS[type]) others.delete(own);
  const fields = Type.Object({ ...OF_TYPE[type], ...OF_ALL });
  return Type.Unsafe({
    ...fields,
    patternProperties: { '^payload_schema$': component('PayloadSchema') },
    propertyNames: { not: { enum: [...others] } },
    additionalProperties: component('FieldCondition'),
    description: `${description} Every further key is a field to match, and all must hold: \`type\`, \`trace_id\`, \`agent_id\`, a path such as \`payload.arguments.amount\`, or a bare name, which is looked up in the payload (\`tool\` is \`payload.tool\`). A word that another type reserves is refused as a bare name; write \`payload.timeout\`.`,
    examples: [example],
  });
}

/** One of `after`, or `unless` (src/policy/compile.ts). */
export const SequenceStep = Type.Unsafe({
  ...Type.Object({
    ...OF_ALL,
    patterns: OF_TYPE.data_filter.patterns,
    detectors: OF_TYPE.data_filter.detectors,
    regions: OF_TYPE.data_filter.regions,
    fields: OF_TYPE.data_filter.fields,
    outcome: Type.Optional(
      Type.Literal('any', {
        description: 'Blocked events are steps, too. Left out: only what was not blocked is one.',
      }),
    ),
  }),
  patternProperties: { '^payload_schema$': component('PayloadSchema') },
  propertyNames: { not: { enum: ['redact', 'threshold', 'window', 'per', 'timeout', 'on_timeout'] } },
  additionalProperties: component('FieldCondition'),
  description:
    'What an event has to be to be the step: conditions as those of `block_action`; with `patterns` or `detectors` what a `data_filter` finds. `{}`: every event.',
  examples: [{ type: 'tool_call', tool: 'read_file', 'payload.arguments.path': { glob: '*.env' } }],
});

/** By the name under which each is in the description. */
export const CONDITIONS: Record<PolicyType, { name: string; schema: TSchema }> = {
  block_action: {
    name: 'BlockActionConditions',
    schema: conditionsOf('block_action', 'Matches the events whose fields match. `{}` matches every event.', {
      type: 'tool_call',
      tool: ['send_money', 'pay'],
      'payload.arguments.amount': { gt: 1000 },
    }),
  },
  rate_limit: {
    name: 'RateLimitConditions',
    schema: conditionsOf(
      'rate_limit',
      'Matches the event that is number `threshold` + 1 or later in a window that ends with it, over all processes.',
      { threshold: 100, window: '1h', per: 'payload.tool', type: 'tool_call' },
    ),
  },
  data_filter: {
    name: 'DataFilterConditions',
    schema: conditionsOf('data_filter', 'Matches where some string of the payload matches a pattern or a detector.', {
      detectors: ['email', 'api_key'],
      redact: true,
    }),
  },
  require_approval: {
    name: 'RequireApprovalConditions',
    schema: conditionsOf('require_approval', 'Matches the events whose fields match; the outcome is `pending`.', {
      type: 'tool_call',
      tool: 'refund',
      timeout: '15m',
      on_timeout: 'deny',
    }),
  },
  sequence: {
    name: 'SequenceConditions',
    schema: conditionsOf(
      'sequence',
      'Matches an event by what was before it: all of `after` occurred in that order, and `unless` did not.',
      {
        tool: ['http_post', 'send_email'],
        after: [{ tool: 'read_file', 'payload.arguments.path': { glob: '*.env' } }],
        within: '1h',
        per: 'trace',
      },
    ),
  },
  external_check: {
    name: 'ExternalCheckConditions',
    schema: conditionsOf('external_check', 'Matches where a check outside says so, of the events whose fields match.', {
      type: 'completion',
      check: 'guard',
      when: { score: { gte: 0.8 } },
      on_timeout: 'match',
      on_error: 'match',
      on_overload: 'pending',
    }),
  },
  budget: {
    name: 'BudgetConditions',
    schema: conditionsOf(
      'budget',
      'Matches the `prompt` that does not fit into what is left of the limit. `type` can be nothing but `prompt`.',
      { limit: '25.00 USD', window: 'day', zone: 'Europe/Berlin', per: 'agent', hold: '10m' },
    ),
  },
};
