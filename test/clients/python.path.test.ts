// The Python client by the system's python3 against the whole service: guards, approvals, a service that is away,
// records through lost answers, and programs that end. The programs are here, one for each question.
import t from 'tap';
import { Api } from '../support/api.ts';
import { guardPolicies } from '../support/block-policies.ts';
import { runPython } from '../support/python.ts';
import { sharedService } from '../support/shared-service.ts';
import { type Fate, unreliable } from '../support/unreliable.ts';

const service = await sharedService(t);
const api = new Api(t, service);
await guardPolicies(api);
const agent = (await api.post('/v1/agents', { name: 'python' })).json.id as string;
await api.submitUntil('blocked', agent, { type: 'tool_call', payload: { tool: 'wire' } });
await api.submitUntil('pending', agent, { type: 'tool_call', payload: { tool: 'refund' } });

const run = (program: string, url = service.url) => runPython(program, { url, key: service.key, agent });

t.test('a guard runs what is allowed and nothing else, coroutines too', async (t) => {
  const { status, lines, stderr } = await run(`
import asyncio
gh = client(agent="python")
@gh.guard("look", trace_id="py-guarded")
def look(at, far=False): return "saw " + at
@gh.guard("pay", trace_id="py-guarded")
def pay(amount): say("it ran")
@gh.guard("look")
async def glance(at): return "glanced"
say(look("x"))
say(failure(pay, 5))
say(asyncio.run(glance("y")))
say(client(agent="python").decide("wire").reason)
say(failure(client(key="gth_wrong").decide, "look"))
`);
  t.same([status, stderr], [0, '']);
  t.match(lines, [
    'saw x',
    ['Blocked', 'Blocked by policy "no pay".'],
    'glanced',
    'Send an invoice instead.',
    ['ApiError', /API key/],
  ]);
  const { json } = await api.get('/v1/traces/py-guarded');
  t.match(json.events, [
    { payload: { tool: 'look', arguments: { at: 'x', far: false } } },
    { payload: { tool: 'pay', arguments: { amount: 5 } }, policy_result: { outcome: 'blocked' } },
  ]);
});

t.test('a call of a model is asked about, and its completion or its error names the prompt', async (t) => {
  const { status, lines, stderr } = await run(`
gh = client(agent="python")
def broken(decision): raise ValueError("cut off")
with gh.trace("py-called"):
    used = lambda text: {"response": text, "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    say(gh.model({"model": "m-1", "prompt": "hello"}, lambda decision: "hi", used))
    say(failure(gh.model, {"model": "m-1", "prompt": "again"}, broken, used))
gh.flush()
`);
  t.same([status, stderr], [0, '']);
  t.match(lines, ['hi', ['RAW', 'cut off']]);
  const { events } = (await api.get('/v1/traces/py-called')).json;
  t.match(events, [
    { type: 'prompt' },
    { type: 'completion', payload: { model: 'm-1', for: events[0].id, response: 'hi' } },
    { type: 'prompt' },
    { type: 'error', payload: { model: 'm-1', for: events[2].id, message: 'cut off' } },
  ]);
});

t.test('what needs an approval is waited for', async (t) => {
  const before = await api.get('/v1/approvals?status=pending');
  const seen = new Set<string>(before.json.items.map(({ id }: { id: string }) => id));
  const asking = run(`
gh = client(approval_wait=30.0)
@gh.guard("refund")
def refund(order): return order
say(refund(7))
say(failure(refund, 8))
say(failure(client(approval_wait=0.5).guard("refund")(lambda: 0)))
`);
  for (const decision of ['approve', 'deny']) {
    const isNew = ({ id }: { id: string }) => !seen.has(id);
    const { json } = await api.until(
      () => api.get('/v1/approvals?status=pending'),
      (answer) => answer.json.items.some(isNew),
    );
    const next = json.items.find(isNew);
    seen.add(next.id);
    await api.post(`/v1/approvals/${next.id}`, { decision });
  }
  const { lines, stderr } = await asking;
  t.equal(stderr, '');
  t.match(lines, [7, ['ApprovalDenied', /was denied\.$/], ['ApprovalPending', /is pending/]]);
});

t.test('a service that is away blocks, unless the guard says otherwise', async (t) => {
  const { lines, stderr } = await run(
    `
gh = client(timeout=0.6)
began = time.monotonic()
say(failure(gh.guard("look")(lambda: "ran")))
say(time.monotonic() - began < 3)
say(gh.guard("look", on_unavailable="allow")(lambda: "ran")())
say(gh.decide("look").outcome)
`,
    'http://127.0.0.1:9',
  );
  t.equal(stderr, '');
  t.match(lines, [['Unavailable', /not available/], true, 'ran', 'unavailable']);
});

t.test('records come once, through lost answers and refusals; what ends after flush has lost nothing', async (t) => {
  const fates: Fate[] = ['lost', 'refused', 'through'];
  const { url } = await unreliable(t, service.url, (request) => fates[request % fates.length]!);
  const { status, lines, stderr } = await run(
    `
gh = client()
for n in range(250): gh.record("custom", {"n": n}, trace_id="py-recorded")
gh.record("shout", {})
say(gh.flush())
say(gh.close())
say(gh.record("custom", {}))
say(gh.counts)
os._exit(0)
`,
    url,
  );
  t.same([status, stderr], [0, '']);
  const counts = { sent: 250, failed: 1, dropped: 0 };
  t.same(lines, [counts, counts, false, { ...counts, dropped: 1 }]);
  t.equal((await api.get('/v1/traces/py-recorded')).json.event_count, 250);
});

t.test('while the service is away records are bounded and counted, and hold no program', async (t) => {
  const { lines, stderr } = await run(
    `
gh = client()
say(sum(gh.record("custom", {"n": n, "text": "x" * 1000}) for n in range(20000)))
say(gh.flush(timeout=0.5))
`,
    'http://127.0.0.1:9',
  );
  t.equal(stderr, '');
  t.match(lines, [1_000, { sent: 0, failed: 1_000, dropped: 19_000 }]);
  const left = await run('client().record("custom", {})', 'http://127.0.0.1:9');
  t.match(left, { status: 0, stderr: '' });
  t.ok(left.ms < 10_000);
});
