// What each way in answers in each situation: one table, which docs/fail-closed.md shows (`npm run docs`) and
// fail-closed.path.test.ts tries, cell by cell. `code` is what is seen and compared; a cell without one is for the
// other side to decide, and says so.

export const SITUATIONS = {
  away: 'nothing listens',
  hangs: 'it takes the call and says nothing',
  full: 'it is full, or the key is over its limit (503, 429)',
  refuses: 'it refuses the call as it is (another 4xx)',
  unclear: 'the call is not understood',
  revoked: 'the key is revoked',
  approval: 'a policy wants an approval, and no one decides in time',
} as const;
export type Situation = keyof typeof SITUATIONS;

/** `code`: undefined: not ours. */
type Cell = { code?: string; words: string };
type Way = { name: string; cells: Record<Situation, Cell> };

const seen = (code: string, words = ''): Cell => ({ code, words });
const theirs = (words: string): Cell => ({ words });

/** The cells of those who call by HTTP themselves. `away`: what becomes of the call where there is no answer. */
function overHttp(away: string, refusal: string, approval: Cell, unclear: Cell): Way['cells'] {
  return {
    away: theirs(away),
    hangs: theirs(`${away}, after its own time`),
    full: seen('429', '`Retry-After` says when to come back; nothing was recorded. So with 503, which says whether'),
    refuses: seen(refusal, 'nothing was recorded'),
    unclear,
    revoked: seen('401', 'within a second of the revocation; nothing is recorded'),
    approval,
  };
}

const DENIED_BY_COMMAND: Way['cells'] = {
  away: seen('status 2', 'after 5 s'),
  hangs: seen('status 2', 'after `--timeout` (10 s)'),
  full: seen('status 2', 'it is tried again until then'),
  refuses: seen('status 2', 'at once'),
  unclear: seen('status 2', 'at once; nothing is recorded'),
  revoked: seen('status 2', 'at once'),
  approval: seen('status 2', 'with the id of the approval'),
};

function mcp(unclear: Cell): Way['cells'] {
  return {
    away: seen(
      'isError',
      'after `--timeout` (5 s); the server never gets the call. With `--on-unavailable allow` it does',
    ),
    hangs: seen('isError', 'as where nothing listens'),
    full: seen('isError', 'as where nothing listens'),
    refuses: seen('isError', 'at once, whatever `--on-unavailable` says'),
    unclear,
    revoked: seen('isError', 'at once, whatever `--on-unavailable` says'),
    approval: seen('isError', 'after `--wait` (40 s), with the id of the approval'),
  };
}

type Names = Record<'unavailable' | 'api' | 'notJson' | 'pending', string>;

function guard({ unavailable, api, notJson, pending }: Names, time: string): Way['cells'] {
  return {
    away: seen(unavailable, `after ${time}; the function is not called, unless the guard may (\`allow\`)`),
    hangs: seen(unavailable, 'as where nothing listens'),
    full: seen(unavailable, 'as where nothing listens'),
    refuses: seen(api, 'at once, also where the guard may'),
    unclear: seen(notJson, 'nothing is sent, and the function is not called'),
    revoked: seen(api, 'at once, also where the guard may'),
    approval: seen(pending, 'after the time that approvals have (55 s)'),
  };
}

function decide({ api, notJson }: Names): Way['cells'] {
  return {
    away: seen('unavailable', 'the outcome; `allowed` is false'),
    hangs: seen('unavailable', 'the outcome'),
    full: seen('unavailable', 'the outcome'),
    refuses: seen(api, 'it throws'),
    unclear: seen(notJson, 'it throws, and nothing is sent'),
    revoked: seen(api, 'it throws'),
    approval: seen('pending', 'the outcome, with the id of the approval'),
  };
}

const RECORD: Way['cells'] = {
  away: seen('failed', 'once `flush` gives up; until then at most 1,000 events and 16 MiB wait, and more is `dropped`'),
  hangs: seen('failed', 'as where nothing listens'),
  full: seen('failed', 'as where nothing listens'),
  refuses: seen('failed', 'one by one: a bad one loses no other'),
  unclear: seen('dropped', 'it has no JSON'),
  revoked: seen('failed'),
  approval: seen('sent', 'it is recorded as pending; nothing waits for it'),
};

const TYPESCRIPT: Names = {
  ...{ unavailable: 'UnavailableError', api: 'ApiError', notJson: 'NotJsonError', pending: 'ApprovalPendingError' },
};
const PYTHON: Names = { unavailable: 'Unavailable', api: 'ApiError', notJson: 'NotJson', pending: 'ApprovalPending' };

export const WAYS: Record<string, Way> = {
  events: {
    name: 'events, by HTTP',
    cells: overHttp(
      'the caller decides',
      '413',
      seen('201', '`outcome` is `pending`: it must not be done until the approval says `allowed`'),
      seen('400', 'the place is in `details`; nothing is recorded'),
    ),
  },
  claude: {
    name: 'HTTP hooks of Claude Code',
    cells: overHttp(
      'denied with `"onFailure": "block"` (since 2.1.295); else the tool goes on. So with every error in this table',
      '413',
      seen('denied', '200, with the id of the approval, after `wait` (45 s)'),
      seen('denied', '200, with the reason; nothing is recorded. Without `hook_event_name`, 400'),
    ),
  },
  copilot: {
    name: 'HTTP hooks of GitHub Copilot',
    cells: overHttp(
      'the tool goes on, always, and so with every error in this table: `gatehouse hook` denies',
      '413',
      seen('denied', '200, with the id of the approval, after `wait` (25 s)'),
      seen('denied', '200, with the reason; nothing is recorded'),
    ),
  },
  hook: { name: '`gatehouse hook`, of any tool', cells: DENIED_BY_COMMAND },
  opa: {
    name: 'queries of OPA clients',
    cells: overHttp(
      'the client decides; the AI SDK denies',
      '413',
      seen('denied', '200 with `"decision": "deny"` and the id, after `wait` (45 s)'),
      seen('400', 'the place is in `details`; nothing is recorded'),
    ),
  },
  authzen: {
    name: 'access evaluations of AuthZEN',
    cells: overHttp(
      'the client decides; one that keeps to the standard denies',
      '413',
      seen('denied', '200 with `"decision": false` and the id, after `wait` (45 s)'),
      seen('400', 'the place is in `details`; nothing is recorded'),
    ),
  },
  litellm: {
    name: "LiteLLM's guardrail",
    cells: overHttp(
      'LiteLLM decides (`unreachable_fallback`)',
      '413',
      seen('denied', '200 with `"action": "BLOCKED"` and the id, after `wait` (45 s)'),
      seen('400', 'the place is in `details`; nothing is recorded'),
    ),
  },
  inference: {
    name: 'inference hooks of a connection',
    cells: {
      away: theirs('the product decides, by its own setting for a server that fails'),
      hangs: theirs(
        'the product decides, after its own time; Gatehouse itself answers within `timeout_ms` (4 s), stores or not',
      ),
      full: seen('deny', 'at once, with 200; with `"on_failure": "allow"` it is `allow`, as in the next three'),
      refuses: seen('deny', 'at once, with 200'),
      unclear: seen('deny', 'with 200; it is recorded as an `error`'),
      revoked: seen('deny', 'with 200, of a secret that is not set any more; nothing is recorded'),
      approval: seen('deny', 'at once, with the address of the approval; sent again once it is given, it goes'),
    },
  },
  mcp: {
    name: '`gatehouse mcp`, a call of a tool',
    cells: mcp(seen('error', 'of JSON-RPC; the server never gets it')),
  },
  listen: {
    name: '`gatehouse mcp --listen`',
    cells: mcp(seen('error', 'of JSON-RPC, with 400; the server never gets it')),
  },
  guard: { name: 'TypeScript, `guard` and adapters', cells: guard(TYPESCRIPT, '`timeoutMs` (2 s)') },
  decide: { name: 'TypeScript, `decide`', cells: decide(TYPESCRIPT) },
  record: { name: 'TypeScript, `record`', cells: RECORD },
  pyGuard: { name: 'Python, `guard`', cells: guard(PYTHON, '`timeout` (2 s)') },
  pyDecide: { name: 'Python, `decide`', cells: decide(PYTHON) },
  pyRecord: { name: 'Python, `record`', cells: RECORD },
  otlp: {
    name: 'spans, by OTLP',
    cells: overHttp(
      'exporters keep what their queue holds and send it again',
      '415',
      seen('200', 'it is over: recorded as `blocked`, with `approval_missing`'),
      seen('400', 'nothing is recorded'),
    ),
  },
};

/** For docs/fail-closed.md: a section for each way, since seven columns are too many for a page. */
export function failClosedSections(): string {
  return Object.values(WAYS)
    .map(({ name, cells }) => {
      const rows = (Object.keys(SITUATIONS) as Situation[]).map((situation) => {
        const { code, words } = cells[situation];
        const said = [code === undefined ? '' : `\`${code}\``, words].filter(Boolean).join(': ');
        return `| ${SITUATIONS[situation]} | ${said} |\n`;
      });
      return `### ${name[0]!.toUpperCase()}${name.slice(1)}\n\n| where | it is |\n|---|---|\n${rows.join('')}`;
    })
    .join('\n');
}
