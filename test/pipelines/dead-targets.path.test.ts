// Targets that fail, each in its own way, beside healthy ones on their host: a target that answers is notified in time,
// what waits says truly when it is tried and how late it is, and an attempt shows what the other side said. The whole
// service, real receivers.
import t from 'tap';
import { Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { type Answering, startReceiver } from '../support/https-receiver.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

/** Before, the whole host was shut: a healthy target was notified after minutes, or never. */
const TOLD_MS_MAX = 30_000;
/** More than open a breaker, and then some that wait behind it. */
const DEAD_DELIVERIES = 8;

const DEAD: Record<string, Answering> = {
  'bad-request': (_request, response) => void response.writeHead(400).end('what is this?'),
  'removed-app': (_request, response) => void response.writeHead(404).end('no_service'),
  'too-many': (_request, response) => void response.writeHead(429, { 'retry-after': '3600' }).end('slow down'),
  moved: (_request, response) => void response.writeHead(302, { location: 'https://example.com/' }).end(),
  broken: (_request, response) => void response.writeHead(503).end('<h1>Service unavailable</h1>'),
  silent: () => undefined,
  'hangs-up': (_request, _response, raw) => void raw.socket.destroy(),
  'says-it-failed': (_request, response) =>
    void response.writeHead(200).end('{"ok": false, "error": "channel_not_found"}'),
  'never-ends': (_request, response) => {
    response.writeHead(500);
    const timer = setInterval(() => response.write('.'), 20);
    response.on('close', () => clearInterval(timer));
  },
};

const hook = await startReceiver(t, {
  answer: (request, response, raw) => {
    const kind = request.path.split('/')[1]!;
    if (DEAD[kind] === undefined) response.end('ok');
    else DEAD[kind](request, response, raw);
  },
});
const service = await startService(t, {
  env: {
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${hook.port},localhost:1`,
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
  },
});
const api = await Api.described(t, service);

async function alert(name: string, channel: string, url = hook.url): Promise<string> {
  const { json } = await api.post('/v1/alerts', {
    name,
    trigger: 'policy_violation',
    channel,
    target: `${url}/${name}`,
  });
  return json.id;
}
const test = async (id: string): Promise<string> => (await api.post(`/v1/alerts/${id}/test`, undefined)).json.id;
const toldTo = (name: string) => hook.received.filter(({ path }) => path === `/${name}`).length;

t.test('healthy targets are notified in time, whatever others on their host do', async (t) => {
  const healthy = { webhook: await alert('alive-hook', 'webhook'), chat_app: await alert('alive-chat', 'chat_app') };
  const dead = new Map<string, string>();
  for (const kind of Object.keys(DEAD)) {
    const id = await alert(kind, 'chat_app');
    for (let i = 0; i < DEAD_DELIVERIES; i++) dead.set(await test(id), kind);
  }
  const refused = await alert('nobody-there', 'webhook', 'https://localhost:1');
  for (let i = 0; i < DEAD_DELIVERIES; i++) dead.set(await test(refused), 'nobody-there');
  await until(() => Object.keys(DEAD).every((kind) => toldTo(kind) > 0));

  for (let round = 1; round <= 10; round++) {
    for (const [channel, name] of [
      ['webhook', 'alive-hook'],
      ['chat_app', 'alive-chat'],
    ] as const) {
      await test(healthy[channel]);
      const ms = await until(() => toldTo(name) === round, TOLD_MS_MAX);
      t.ok(ms !== undefined, `${name} was told of the ${round}th after ${Math.round(ms ?? -1)} ms`);
    }
  }

  const askedMs = Date.now();
  const { items } = (await api.get('/v1/deliveries?status=pending&limit=500')).json as { items: Delivery[] };
  t.ok(items.length > Object.keys(DEAD).length, `${items.length} wait`);
  // The clocks are of one machine; a little for rounding.
  const past = items.filter(({ next_attempt_at: at }) => Date.parse(at) < askedMs - 1_000);
  t.same(past, [], 'nothing that waits was to be tried in the past');
  const late = /^gatehouse_deliveries_late_seconds\S* (\S+)$/m;
  await until(async () => Number(late.exec((await api.get('/metrics')).text)?.[1]) > 1);
  t.ok(Number(late.exec((await api.get('/metrics')).text)?.[1]) > 1, 'and what is late counts, put off or not');

  const said: Record<string, object> = {
    'bad-request': { status_code: 400, error: 'status', answer: 'what is this?' },
    'removed-app': { status_code: 404, error: 'status', answer: 'no_service' },
    'too-many': { status_code: 429, error: 'status', answer: 'slow down' },
    moved: { status_code: 302, error: 'redirect', answer: null },
    broken: { status_code: 503, error: 'status', answer: '<h1>Service unavailable</h1>' },
    silent: { status_code: null, error: 'timeout', answer: null },
    'hangs-up': { status_code: null, error: 'reset', answer: null },
    'says-it-failed': { status_code: 200, error: 'rejected', answer: '{"ok": false, "error": "channel_not_found"}' },
    'never-ends': { status_code: 500, error: 'status', answer: /^\.{1,200}$/ },
    'nobody-there': { status_code: null, error: 'refused', answer: null },
  };
  for (const [kind, attempt] of Object.entries(said)) {
    const ids = [...dead].filter(([, of]) => of === kind).map(([id]) => id);
    let tried: Delivery | undefined;
    await until(async () => {
      for (const id of ids) {
        const { json } = await api.get(`/v1/deliveries/${id}`);
        if (json.attempts.length > 0) tried = json;
      }
      return tried !== undefined;
    });
    t.match(tried?.attempts[0], attempt, kind);
  }
});

type Delivery = { id: string; next_attempt_at: string; attempts: object[] };

/** How long it took; undefined: too long. */
async function until(holds: () => boolean | Promise<boolean>, ms = 90_000): Promise<number | undefined> {
  const startMs = performance.now();
  while (!(await holds())) {
    if (performance.now() > startMs + ms) return undefined;
    await pause(50);
  }
  return performance.now() - startMs;
}
