// The attacks of the line "neighbour" by way of others: a check outside that never answers, asked 1,000 times a second,
// and inference hooks of 10 MB. What they need in an account is made before, by the parent.
import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { getOrMake } from '../src/common/maps.ts';
import { authorityFile } from '../test/support/certificate.ts';
import { BAD_JUDGES, startJudges } from '../test/support/judge-servers.ts';
import { Teardowns, whenEnded } from './ending.ts';
import type { HttpClient } from './http-client.ts';
import type { PolicyOrder } from './workload.ts';

const TIMEOUT_MS = 200;
const CHECK = 'dead';
const HOOK_MESSAGES = 10;
const MESSAGE_BYTES = 1_000_000;

/** Judges by https that behave badly, by the first part of the path. */
export async function startBadJudges() {
  const teardowns = new Teardowns();
  const judges = await startJudges(teardowns, BAD_JUDGES);
  const env = {
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${judges.port}`,
    NODE_EXTRA_CA_CERTS: await authorityFile(teardowns),
  };
  const strike = whenEnded(() => teardowns.run());
  const stop = async () => {
    strike();
    await teardowns.run();
  };
  return { env, url: judges.url, stop };
}

export const ASKS_DEAD_CHECK: PolicyOrder = {
  ...{ name: 'asks', type: 'external_check', actions: ['block'] },
  conditions: { check: CHECK, on_timeout: 'skip', on_error: 'skip', on_overload: 'skip' },
};

export async function makeDeadCheck(client: HttpClient, url: string): Promise<string> {
  const check = { name: CHECK, speaks: 'gatehouse', url: `${url}/silent`, timeout_ms: TIMEOUT_MS };
  return (await client.json<{ id: string }>('POST', '/v1/checks', check)).id;
}

/** The id and the secret of a new connection, which are needed to send hooks, as one text. */
export async function makeConnection(client: HttpClient): Promise<string> {
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const { id } = await client.json<{ id: string }>('POST', '/v1/connections', { name: 'bench', secrets: [secret] });
  return `${id} ${secret}`;
}

/** A conversation of 10 MB that is all new. */
export const largeHook = (turn: number, connection: string) =>
  hookOf(turn, connection, textsOf(HOOK_MESSAGES, MESSAGE_BYTES));

const made = new Map<string, string>();

/** So many messages of so many bytes, as text: made once. */
export function textsOf(messages: number, bytes: number): string {
  const message = (_: unknown, i: number) => ({
    ...{ role: i % 2 === 0 ? 'user' : 'assistant' },
    content: [{ type: 'text', text: `${i} `.padEnd(bytes, 'lorem ipsum ') }],
  });
  return getOrMake(made, `${messages} ${bytes}`, () => JSON.stringify(Array.from({ length: messages }, message)));
}

/** The conversation is its own, so that all of it is new. */
export function hookOf(turn: number, connection: string, messages: string) {
  const [id, secret] = connection.split(' ') as [string, string];
  const head = { type: 'prompt', request_id: `r-${turn}`, session_id: `s-${turn}`, source: { application: 'bench' } };
  const body = `${JSON.stringify(head).slice(0, -1)},"messages":${messages}}`;
  const [message, at] = [`msg_${turn}`, new Date()];
  const headers = {
    'webhook-id': message,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(message, at, body),
  };
  return { method: 'POST', path: `/v1/hooks/inference/${id}`, body, headers };
}
