// What users sent is passed on and kept as its text: parsed and printed again, 1.0 is 1, 9007199254740993 another
// account, 1e400 null. So every file that parses or prints JSON is in one of these lists, with the reason for which it
// may. A file that is in none fails, and so does an entry without a use. That the ways in keep each token is tried by
// test/http/hooks.path.test.ts, test/http/exact.path.test.ts and test/mcp/messages.path.test.ts.
import t from 'tap';
import { filesIn, read } from './support/sources.ts';

/** They print what they have made, and parse what they have printed: nothing in it is a value that a user chose. */
const OWN: Record<string, readonly string[]> = {
  'records of the registry, in Redis: names, ids, times, texts; conditions of policies go by exact-json.ts': [
    ...['src/registry/accounts/account-quota.ts', 'src/registry/accounts/account-retention.ts'],
    ...['src/registry/accounts/accounts.ts', 'src/registry/accounts/api-keys.ts', 'src/registry/accounts/holds.ts'],
    ...['src/registry/accounts/sessions.ts', 'src/registry/agents.ts', 'src/registry/alerts/alerts.ts'],
    ...['src/registry/alerts/deliveries.ts', 'src/registry/alerts/outgoing-feeds.ts'],
    ...['src/registry/approvals/approval-review.ts', 'src/registry/approvals/approvals.ts'],
    ...['src/registry/budgets/denied-reservations.ts', 'src/registry/budgets/price-tables.ts'],
    ...['src/registry/cache/cache.ts', 'src/registry/connections.ts', 'src/registry/erasures.ts'],
    ...['src/registry/external-checks.ts', 'src/registry/named-records.ts'],
    ...['src/registry/policies/backtest-removal.ts', 'src/registry/policies/backtests.ts'],
    ...['src/registry/policies/policy-evaluation.ts', 'src/registry/policies/policy-preview.ts'],
    ...['src/registry/recovery/recovery.ts', 'src/registry/recovery/restore-approvals.ts'],
    ...['src/registry/recovery/restore-deliveries.ts', 'src/registry/recovery/restore.ts', 'src/registry/views.ts'],
    'src/policy/quotas/spend-store.ts',
    'src/commands/budget-commands.ts',
    'src/composition/backtests-process.ts',
  ],
  'entries of streams, heads of chains, files of the installation': [
    ...['schemas/entry.ts', 'src/audit/checkpoint.ts', 'src/audit/checkpoints.ts', 'src/audit/sources.ts'],
    ...['src/audit/daily-verification.ts', 'src/audit/gap-note.ts', 'src/audit/key-successions.ts'],
    'src/audit/verification-job.ts',
    ...['src/backup/backup-manifest.ts', 'src/chdb-server/frozen-copy.ts'],
    ...['src/backup/stored-backup.ts', 'src/commands/stored-backup-commands.ts'],
    ...[
      'src/streams/consume.ts',
      'src/streams/dead-letters.ts',
      'src/streams/limit-signals.ts',
      'src/streams/signals.ts',
    ],
    ...[
      'src/stores/installation.ts',
      'src/composition/clients.ts',
      'src/embedded/state-dir.ts',
      'src/embedded/redis-server.ts',
    ],
    ...[
      'src/embedded/supervisor.ts',
      'src/composition/cli.ts',
      'src/metrics/metrics.ts',
      'src/process/stall-guard-thread.ts',
    ],
  ],
  'the HTTP interface of ClickHouse: rows come and go as its own texts': [
    ...['chdb-sessions', 'clickhouse-protocol', 'clickhouse-server-main', 'clickhouse-server', 'data-directory'].map(
      (name) => `src/chdb-server/${name}.ts`,
    ),
  ],
  'cursors, envelopes of answers, records without a payload; payloads stand beside them as text': [
    ...['answers/cursor', 'exchange', 'answers/live', 'openapi/schemas', 'openapi/document', 'answers/reply'].map(
      (name) => `src/http/${name}.ts`,
    ),
    ...[
      'anomaly-routes',
      'approval-routes',
      'delivery-routes',
      'event-routes',
      'feed-routes',
      'stream-routes',
      'trace-routes',
    ].map((name) => `src/http/handlers/${name}.ts`),
    ...['src/audit/feed.ts', 'src/ingest/kept-verdicts.ts'],
  ],
  'what a person reads: lines of commands, quoted names, settings': [
    ...['account', 'audit', 'cluster', 'dead-letter', 'hold', 'policy', 'price', 'store'].map(
      (name) => `src/commands/${name}-commands.ts`,
    ),
    ...[
      'src/commands/ask-service.ts',
      'src/commands/doctor.ts',
      'src/common/policy-files.ts',
      'src/common/errors.ts',
      'src/http/admission/admission.ts',
    ],
    ...[
      'src/process/addresses.ts',
      'src/process/config.ts',
      'src/process/log.ts',
      'src/process/log-for-people.ts',
      'src/registry/policies/policy-declaration.ts',
    ],
  ],
  'what is asked of checks outside, and what they answer; payloads stand in it as text': [
    'src/checks/check-calls.ts',
    'src/ingest/outside-watching.ts',
    ...['own-form', 'litellm-guardrail', 'openai-chat', 'openai-moderation', 'presidio'].map(
      (name) => `src/checks/formats/${name}.ts`,
    ),
  ],
  'what policies say, and the names in their conditions': [
    ...[
      'decide',
      'observed',
      'outside',
      'rule-index',
      'replay/recorded-event',
      'conditions/path',
      'conditions/payload-schema',
      'quotas/sequence-store',
    ].map((name) => `src/policy/${name}.ts`),
    'src/ingest/shadow-judging.ts',
    'src/ingest/spans-intake.ts',
  ],
  'answers to exporters, names of members and agents; values of spans go by exact-json.ts': [
    ...['answers', 'gateway-trace', 'span-export', 'span-owners', 'span-payload'].map((name) => `src/otlp/${name}.ts`),
  ],
  'answers of the service, read by a client; what it sends is text from the moment it is given': [
    ...['gatehouse', 'transport'].map((name) => `clients/typescript/src/${name}.ts`),
  ],
};

/** They touch what users sent: each use, and why it changes nothing of it. */
const SENT: Record<string, Record<string, string>> = {
  'src/common/exact-json.ts': {
    'JSON.parse(text) as Json) : (withNumbers(JSON.parse(marked)': 'the reader that keeps numbers',
    'JSON.stringify(value);': 'the printer that keeps them',
  },
  'src/common/json-text.ts': {
    'JSON.stringify(value);': 'of values of our own',
    'JSON.parse(text) as string)': 'the text that a string stands for, to be compared',
    'JSON.parse(text);': 'is it JSON? its value is dropped',
  },
  'src/common/json-fault.ts': {
    "JSON.parse(this.#bytes.toString('utf8', start, this.#at))": 'a key, for the place of a mistake',
    'JSON.stringify(key.length': 'the same, shown',
  },
  'src/common/search/payload-words.ts': { 'JSON.parse(written)': 'the words of a string, to be searched' },
  'src/http/handlers/decision-points/decision-point.ts': {
    "JSON.parse(text.raw('policy_result')!)": 'what policies say; the payload beside it stays text',
  },
  'src/ingest/json.ts': {
    'parse = JSON.parse,': 'the values that policies inspect; the text goes on',
    "JSON.parse(raw) === 'payload'": 'a key, compared',
  },
  'src/ingest/encode.ts': {
    'JSON.stringify(summaryOf(': 'a summary of our own',
    'JSON.parse(text)': 'the redacted payload, to be summed up',
  },
  'src/ingest/event-cost.ts': {
    'JSON.stringify(element)': 'counts of our own',
    'JSON.parse(redacted.payloadText)': 'the redacted payload, of which its counts and model are read',
  },
  'src/ingest/resolve-budgets.ts': {
    'JSON.stringify(element)': 'amounts and names of our own',
    'JSON.stringify(said)': 'amounts and names of our own',
    'JSON.stringify([agent, ': 'names, hashed',
  },
  'src/policy/replay/replayed-budget.ts': {
    'JSON.stringify([of.agentId, model])': 'names, hashed',
    'JSON.stringify([agent, ': 'names, hashed',
  },
  'src/policy/spends/spend-form.ts': {
    'JSON.stringify(terms.window)': 'a window of our own, hashed',
    'JSON.parse(scope)': 'a string, which has one reading',
  },
  'src/ingest/submission-reply.ts': {
    'JSON.stringify(submission.traceId)': 'a string, which has one reading',
    'JSON.stringify({ error': 'an error of our own',
  },
  'src/ingest/wasm-codec.ts': {
    'JSON.parse(payloadText)': 'the values that policies inspect; the text goes on',
    'JSON.parse(json)': 'a string, to be looked into for a demand',
    "JSON.parse(bytes.toString('utf8', open, end))": 'a string, to be asked by a demand',
  },
  'src/policy/kinds/rate-limit.ts': {
    'JSON.stringify(value);': 'the name of a counter',
    'JSON.stringify(text);': 'the name of a counter',
  },
  'src/policy/sequences/sequence-part.ts': {
    'JSON.stringify([memory.name, ...texts])': 'hashed, to be compared',
  },
  'src/policy/redaction/redact-payload.ts': {
    'JSON.parse(this.#text.slice(open, close + 1))': 'a string, to be searched',
    'JSON.stringify(edit.text).slice(1, -1)': 'what is put in place of a stretch of a string',
  },
  'clients/typescript/src/json.ts': {
    'JSON.parse(text);': 'is it JSON? its value is dropped',
    'JSON.stringify(value), copy: value': 'a number or text that the program has, as JavaScript writes it',
    'JSON.stringify(copy.toISOString())': 'a time',
    'JSON.stringify(value), copy: new URL': 'an address',
    'JSON.stringify(key)': 'a key',
  },
};

const USE = /JSON\.(?:parse|stringify)\b/;

/** Without comments. */
const codeOf = (file: string) => read(file).replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');

const files = ['src', 'clients/typescript/src', 'schemas']
  .flatMap((folder) => filesIn(folder, /\.tsx?$/))
  .filter((file) => USE.test(codeOf(file)));

t.test('every file that parses or prints JSON has its reason, and every reason its file', (t) => {
  const listed = [...Object.values(OWN).flat(), ...Object.keys(SENT)];
  t.equal(new Set(listed).size, listed.length, 'each once');
  t.same(
    files.filter((file) => !listed.includes(file)),
    [],
    'a file that is in no list: does it print what a user sent?',
  );
  t.same(
    listed.filter((file) => !files.includes(file)),
    [],
    'what no longer does is taken out',
  );
  t.end();
});

t.test('where users have sent it, each use has its reason', (t) => {
  for (const [file, uses] of Object.entries(SENT)) {
    let rest = codeOf(file);
    for (const use of Object.keys(uses)) {
      t.ok(rest.includes(use), `${file}: ${use}`);
      rest = rest.split(use).join('');
    }
    t.same(rest.match(new RegExp(USE, 'g')) ?? [], [], `${file}: no other`);
  }
  t.end();
});

t.test('what hooks, queries and messages hold is not printed again', (t) => {
  const readers = ['src/hooks', 'src/mcp', 'src/http/handlers/decision-points'].flatMap((one) => filesIn(one, /\.ts$/));
  t.ok(readers.length > 15);
  t.same(
    readers.filter((file) => /JSON\.stringify|parseExact\(/.test(codeOf(file))),
    ['src/mcp/pins.ts', 'src/http/handlers/decision-points/litellm-route.ts'],
    'to compare, and to write what pins keep',
  );
  t.end();
});
