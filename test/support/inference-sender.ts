// A product that asks before each prompt and call of a tool, as its public description has it: it sends the whole
// conversation, signed as Standard Webhooks lays down (by that project's own library), and waits for a verdict. It
// shares no code with what answers.
import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { Webhook } from 'standardwebhooks';

type Verdict = { action: 'allow' | 'deny'; deny_reason?: string; reference_id?: string };
type HookAnswer = { status: number; verdict: Verdict; ms: number };
/** `secret` null: unsigned. `at`: of the signature. `signature`: in place of the right one. */
type Sending = { secret?: string | null; at?: Date; signature?: string; headers?: Record<string, string> };
/** A request as it is sent. */
type Signed = { text: string; headers: Record<string, string> };

export const text = (said: string, role = 'user') => ({ role, content: [{ type: 'text', text: said }] });

/** `messages`: the conversation so far. */
export function promptOf(session: string, messages: readonly unknown[], more: object = {}) {
  return {
    ...{ type: 'prompt', request_id: randomUUID(), tenant_id: 'org-1', session_id: session, model: 'opus' },
    actor: { type: 'user', id: 'u-1', email_address: 'ada@example.com' },
    source: { application: 'chat' },
    messages,
    metadata: { at: Date.now() },
    ...more,
  };
}

export class InferenceSender {
  readonly #url: string;
  readonly #secret: string;

  constructor(service: { url: string }, connection: string, secret: string) {
    this.#url = `${service.url}/v1/hooks/inference/${connection}`;
    this.#secret = secret;
  }

  send(body: object | string, sending: Sending = {}): Promise<HookAnswer> {
    return this.sendSigned(this.signed(body, sending));
  }

  signed(body: object | string, { secret = this.#secret, at = new Date(), ...more }: Sending = {}): Signed {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const id = `msg_${randomUUID()}`;
    const signature =
      secret === null
        ? {}
        : {
            'webhook-id': id,
            'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
            'webhook-signature': more.signature ?? new Webhook(secret).sign(id, at, text),
          };
    return { text, headers: { 'content-type': 'application/json', ...signature, ...more.headers } };
  }

  async sendSigned({ text, headers }: Signed): Promise<HookAnswer> {
    const began = performance.now();
    const { status, answer } = await post(this.#url, headers, text);
    return { status, verdict: JSON.parse(answer) as Verdict, ms: performance.now() - began };
  }
}

/** On a connection of its own, so that all fronts get some. */
function post(url: string, headers: Record<string, string>, body: string): Promise<{ status: number; answer: string }> {
  const length = { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent: false, headers: { ...headers, ...length } }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode!, answer: Buffer.concat(chunks).toString() }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
