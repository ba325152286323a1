// Sequences and budgets among kills (mixed-kills.ts) and failovers (test/cluster). Some clients do what their policies
// are about:
//   a step, then what must not come behind it, each in a trace of its own: never a match too few after an answer
//   a prompt, then its completion: what was acknowledged is charged once, and what is counted is what is stored
// Failure: what does not hold is said in words; a request without an answer may have been done or not.
import { setTimeout as sleep } from 'node:timers/promises';
import type { HttpClient } from '../../bench/http-client.ts';

/** Called with what became of each event, by the marker in its payload; `id`: where it was acknowledged. */
type Note = (fate: Fate, marker: string, id: string) => void;
export type Fate = 'acknowledged' | 'refused' | 'unknown';
type Outcome = { fate: Fate; id: string; outcome: string };
type Sent = { type: string; trace_id?: string; payload: object };
type BudgetLine = { scope: string | null; spent: number; stored?: number; drift?: number; known: boolean };

const CLIENTS = 6;
const PAUSE_MS = 50;
const KNOWN_MS_MAX = 60_000;
const SETTLED_MS_MAX = 300_000;

export class OverTime {
  readonly #client: HttpClient;
  readonly #note: Note;
  readonly #agents: string[] = [];
  #budget = '';
  readonly #wrong: string[] = [];
  /** Over all runs: each has traces of its own. */
  #round = 0;
  #matched = 0;
  /** Tokens of completions. */
  #charged = 0;
  #perhaps = 0;

  constructor(client: HttpClient, note: Note) {
    this.#client = client;
    this.#note = note;
  }

  /** Makes the policies, and waits until they know what was before. */
  async prepare(): Promise<void> {
    const make = async (path: string, body: object) => (await this.#client.json<{ id: string }>('POST', path, body)).id;
    for (let i = 0; i < CLIENTS; i++) this.#agents.push(await make('/v1/agents', { name: `over-time-${i}` }));
    const step = { tool: 'kills_read' };
    await make('/v1/policies', {
      ...{ name: 'nothing is sent after it was read', type: 'sequence', actions: ['block'] },
      conditions: { tool: 'kills_send', after: [step], within: '1d', per: 'trace' },
    });
    this.#budget = await make('/v1/policies', {
      ...{ name: 'tokens', type: 'budget', actions: ['block'] },
      conditions: { limit: { tokens: 10 ** 12 }, window: '1d', estimate: 'worst' },
    });
    const isKnown = async () => {
      const sent = await this.#send(0, `before-${performance.now()}`, {
        type: 'tool_call',
        payload: { tool: 'kills_send' },
      });
      const asked = await this.#send(0, `asked-${performance.now()}`, { type: 'prompt', payload: { max_tokens: 1 } });
      return sent.outcome === 'allowed' && asked.outcome === 'allowed' && (await this.#lines()).length > 0;
    };
    for (const endMs = performance.now() + KNOWN_MS_MAX; !(await isKnown()); await sleep(500))
      if (performance.now() > endMs) throw new Error('sequence and budget are not known');
  }

  async run(isOver: () => boolean): Promise<void> {
    await Promise.all(this.#agents.map((_, i) => this.#work(i, isOver)));
  }

  /** Waits until amounts are settled, and answers what does not hold. */
  async verify(): Promise<{ matched: number; charged: number; wrong: string[] }> {
    let lines: BudgetLine[] = [];
    const isSettled = () => lines.length > 0 && lines.every(({ known, drift }) => known && drift === 0);
    for (
      const endMs = performance.now() + SETTLED_MS_MAX;
      performance.now() < endMs && !isSettled();
      await sleep(2_000)
    )
      lines = await this.#lines().catch(() => []);
    if (!isSettled()) this.#wrong.push(`counted is not what is stored: ${JSON.stringify(lines)}`);
    const stored = lines.reduce((sum, { stored = 0 }) => sum + stored, 0);
    if (stored < this.#charged) this.#wrong.push(`${this.#charged} tokens were acknowledged, ${stored} are charged`);
    if (stored > this.#charged + this.#perhaps)
      this.#wrong.push(`${stored} tokens are charged, ${this.#charged} acknowledged, ${this.#perhaps} unknown`);
    return { matched: this.#matched, charged: stored, wrong: this.#wrong };
  }

  async #work(number: number, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const round = this.#round++;
      const trace_id = `over-time-${number}-${round}`;
      const marker = (what: string) => `${what}-${trace_id}`;
      const call = (tool: string) => ({ type: 'tool_call', trace_id, payload: { tool } });
      const step = await this.#send(number, marker('step'), call('kills_read'));
      if (step.fate === 'acknowledged' && step.outcome === 'allowed') {
        const { fate, outcome, id } = await this.#send(number, marker('sink'), call('kills_send'));
        if (fate === 'acknowledged' && outcome === 'allowed')
          this.#wrong.push(`${id} came behind ${step.id}, and is allowed`);
        if (outcome === 'blocked') this.#matched++;
      }
      const prompt = { type: 'prompt', trace_id, payload: { model: 'm', token_count: 10, max_tokens: 50 } };
      const { id, outcome } = await this.#send(number, marker('prompt'), prompt);
      const tokens = 1 + (round % 40);
      const usage = { prompt_tokens: 0, completion_tokens: tokens };
      const payload = { model: 'm', ...(id === '' ? {} : { for: id }), usage };
      const done = await this.#send(number, marker('done'), { type: 'completion', trace_id, payload });
      if (done.fate === 'acknowledged') this.#charged += tokens;
      else if (done.fate === 'unknown') this.#perhaps += tokens;
      if (outcome === 'blocked') await sleep(PAUSE_MS);
      await sleep(PAUSE_MS);
    }
  }

  async #send(number: number, marker: string, event: Sent): Promise<Outcome> {
    const body = JSON.stringify({ ...event, payload: { ...event.payload, marker } });
    const found = await this.#client.send('POST', `/v1/agents/${this.#agents[number]}/events`, body).then(
      ({ status, body }) => outcomeOf(status, body),
      (error: NodeJS.ErrnoException): Outcome => nothing(error.code === 'ECONNREFUSED' ? 'refused' : 'unknown'),
    );
    this.#note(found.fate, marker, found.id);
    return found;
  }

  /** Lists the budget, in tokens, which are plain numbers. */
  async #lines(): Promise<BudgetLine[]> {
    const path = `/v1/budgets?policy_id=${this.#budget}&check=true`;
    return (await this.#client.json<{ items: BudgetLine[] }>('GET', path)).items;
  }
}

function nothing(fate: Fate): Outcome {
  return { fate, id: '', outcome: '' };
}

function outcomeOf(status: number, body: string): Outcome {
  if (status >= 300) return nothing(body.includes('"recorded":false') ? 'refused' : 'unknown');
  const { id, policy_result: result } = JSON.parse(body) as { id: string; policy_result: { outcome: string } };
  return { fate: 'acknowledged', id, outcome: result.outcome };
}
