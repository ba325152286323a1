// Judges the events of one submission by the account's shadows, beside its path (ingest.ts): after the policies in
// force, on the same event as it was sent, and what comes of it goes into the entry behind the summaries of the events.
//   judge    every shadow of every event, on the shadows' own allowance
//   decide   what limits, budgets and sequences among them ask, once the decision is there (asked-by-shadows.ts)
//   elements what they said and charged, for the pipelines (schemas/entry.ts)
// Invariant: rows, summaries and answer are made without it, so they are the same with and without shadows. It never
// throws and never refuses, and delays by no more than the shadows' allowance and their counters' time
// (shadow-counters.ts). What cannot be judged is skipped and counted.

import type { AgentRecord } from '../../schemas/agent.ts';
import type { ShadowSkip, ShadowVerdict } from '../../schemas/closed-sets.ts';
import type { ShadowElement } from '../../schemas/entry.ts';
import type { ShadowJudged } from '../../schemas/event.ts';
import { getOrMake } from '../common/maps.ts';
import { atOnce, type Pause } from '../common/steps.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { ShadowJudgement, Shadows } from '../policy/judgement.ts';
import type { Arrivals } from './arrival.ts';
import { AskedByShadows } from './asked-by-shadows.ts';
import type { DecodedBody } from './codec.ts';
import type { IngestParts, IngestRequest } from './ingest-parts.ts';
import type { Decided } from './resolve-quotas.ts';
import type { ShadowGrants, ShadowsAsked } from './shadow-counters.ts';

type Parts = {
  parts: Pick<IngestParts, 'shadow' | 'sequences' | 'spends' | 'onUnknownBudgets'>;
  request: IngestRequest;
  rules: Pick<RuleSet, 'prices'>;
  shadows: Shadows;
  body: DecodedBody;
  agent: AgentRecord;
  nowMs: number;
};

export class ShadowJudging {
  readonly #parts: Parts;
  readonly #judgements: ShadowJudgement[] = [];
  #said: (readonly ShadowJudged[])[] = [];
  /** undefined: nothing was asked for. */
  #asked: AskedByShadows | undefined;
  readonly #skipped = new Map<ShadowSkip, number>();

  /** `nowMs`: epoch ms at which the submission was read. */
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  judge(): void {
    const { parts, request, shadows, body, agent } = this.#parts;
    try {
      const begunMs = performance.now();
      const allowance = parts.shadow.allowances.begin(request.account, begunMs);
      for (let i = 0; i < body.elements; i++)
        this.#judgements.push(atOnce(body.judgingShadows(i, agent, { shadows, allowance })));
      allowance.spendTime(performance.now() - begunMs, body.elements);
    } catch {
      this.#giveUp();
    }
  }

  /** The same apart from the loop that answers: others have their turn in between. */
  async judgeWithPauses(pause: Pause): Promise<void> {
    const { parts, request, shadows, body, agent } = this.#parts;
    try {
      const allowance = parts.shadow.allowances.begin(request.account, performance.now());
      for (let i = 0; i < body.elements; i++) {
        const work = body.judgingShadows(i, agent, { shadows, allowance });
        this.#judgements.push(await shadows.turns.do(work, pause));
        await pause();
      }
    } catch {
      this.#giveUp();
    }
  }

  /** `arrivals`: of the events. `done`: called once, perhaps before this returns. */
  decide(judged: readonly (Decided | null)[], arrivals: () => Arrivals, done: () => void): void {
    const requests = this.#toAsk(judged, arrivals);
    if (requests === undefined) {
      this.#decided(judged, undefined);
      done();
      return;
    }
    const { parts, request } = this.#parts;
    parts.shadow.counters.ask(request.account, request.agentId, requests, (grants) => {
      this.#decided(judged, grants);
      done();
    });
  }

  /** The events are not recorded. */
  release(): void {
    const { parts, request } = this.#parts;
    parts.spends.release(request.account, this.#asked?.releases() ?? []);
  }

  /** They are recorded. Not waited for: until then `unless` is not met, which matches too often, never too rarely. */
  recorded(): void {
    const { parts, request } = this.#parts;
    const kept = this.#asked?.recorded;
    if (kept !== undefined) void parts.sequences.settle(request.account, kept.ids, kept.atMs);
  }

  /** JSON of what they said, and of what their budgets are charged. */
  elements(judged: readonly (Decided | null)[]): string[] {
    return [this.#element(judged), this.#asked?.settled(judged)].filter((element) => element !== undefined);
  }

  /** undefined: nothing. */
  #element(judged: readonly (Decided | null)[]): string | undefined {
    if (!this.#said.some(({ length }) => length > 0)) return undefined;
    const places = new Map<string, number>();
    const element: ShadowElement = { shadows: [], of: [] };
    let back = 0;
    for (let i = judged.length - 1; i >= 0; i--) {
      if (judged[i] === null) continue;
      back++;
      const said = this.#said[i] ?? [];
      if (said.length === 0) continue;
      element.of.push([
        back,
        ...said.map(({ policy_id: id, revision, would }): [number, ShadowVerdict] => {
          const place = getOrMake(places, id, () => element.shadows.push([id, revision]) - 1);
          return [place, would];
        }),
      ]);
    }
    return JSON.stringify(element);
  }

  /** To be called once they are recorded. */
  count(): void {
    const said = new Map<ShadowVerdict, number>();
    for (const of of this.#said) for (const { would } of of) said.set(would, (said.get(would) ?? 0) + 1);
    if (said.size > 0 || this.#skipped.size > 0)
      this.#parts.parts.shadow.onJudged({ said: [...said], skipped: [...this.#skipped] });
  }

  #toAsk(judged: readonly (Decided | null)[], arrivals: () => Arrivals): ShadowsAsked | undefined {
    const { rules, ...parts } = this.#parts;
    try {
      const { prices } = rules;
      this.#asked = new AskedByShadows({ ...parts, judgements: this.#judgements, judged, prices, arrivals });
      return this.#asked.requests;
    } catch {
      this.#giveUp();
      return undefined;
    }
  }

  #decided(judged: readonly (Decided | null)[], grants: ShadowGrants | undefined): void {
    const { parts, request, shadows, nowMs } = this.#parts;
    try {
      const answers = this.#asked?.answers(grants, (times) => this.#skip('counters', times)) ?? [];
      const unknown = this.#asked?.unknownBudgets ?? [];
      if (unknown.length > 0) parts.onUnknownBudgets(request.account, unknown);
      this.#said = this.#judgements.map((judgement, i) => {
        const decision = judged[i]?.decision;
        if (decision === undefined) return NONE;
        if (judgement !== null && 'skipped' in judgement) this.#skip(judgement.reason, judgement.skipped.length);
        return shadows.verdicts(judgement, decision, answers[i]!, nowMs);
      });
    } catch {
      this.#giveUp();
    }
  }

  #skip(reason: ShadowSkip, times: number): void {
    if (times > 0) this.#skipped.set(reason, (this.#skipped.get(reason) ?? 0) + times);
  }

  /** A bug of ours must not cost the event. */
  #giveUp(): void {
    this.#judgements.length = 0;
    this.#asked = undefined;
    this.#said = [];
    this.#skip('error', this.#parts.shadows.policies.length);
  }
}

const NONE: readonly ShadowJudged[] = Object.freeze([]);
