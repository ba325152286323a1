// Judges the events of one submission by the account's shadows, beside its path (ingest.ts): after the policies in
// force, on the same event as it was sent, and what comes of it goes into the entry behind the summaries of the events.
//   judge    every shadow of every event, on the shadows' own allowance
//   decide   counters of limits among them, asked once the decision is there
//   element  what they said, for the store pipeline (schemas/entry.ts)
// Invariant: rows, summaries and answer are made without it, so they are the same with and without shadows. It never
// throws and never refuses, and delays by no more than the shadows' allowance and their counters' time
// (shadow-counters.ts). What cannot be judged is skipped and counted.

import type { AgentRecord } from '../../schemas/agent.ts';
import type { ShadowSkip, ShadowVerdict } from '../../schemas/closed-sets.ts';
import type { ShadowElement } from '../../schemas/entry.ts';
import type { ShadowJudged } from '../../schemas/event.ts';
import { atOnce, type Pause } from '../common/steps.ts';
import type { LimitAnswer, RateCheck, ShadowJudgement, Shadows } from '../policy/judgement.ts';
import { limitsOf } from '../policy/shadows.ts';
import type { DecodedBody } from './codec.ts';
import type { IngestRequest, ShadowParts } from './ingest-parts.ts';
import type { QuotaGrant } from './rate-limit-batcher.ts';
import type { Decided } from './resolve-quotas.ts';

type Parts = { shadow: ShadowParts; request: IngestRequest; shadows: Shadows; nowMs: number };
/** Permits for neighbours of one judgement. */
type ShadowCheck = { check: RateCheck; permits: number; run: number; places: [event: number, limit: number][] };

export class ShadowJudging {
  readonly #parts: Parts;
  readonly #judgements: ShadowJudgement[] = [];
  #said: (readonly ShadowJudged[])[] = [];
  readonly #skipped = new Map<ShadowSkip, number>();

  /** `nowMs`: epoch ms at which the submission was read. */
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  judge(body: DecodedBody, agent: AgentRecord): void {
    const { shadow, request, shadows } = this.#parts;
    try {
      const begunMs = performance.now();
      const allowance = shadow.allowances.begin(request.account, begunMs);
      for (let i = 0; i < body.elements; i++)
        this.#judgements.push(atOnce(body.judgingShadows(i, agent, { shadows, allowance })));
      allowance.spendTime(performance.now() - begunMs, body.elements);
    } catch {
      this.#giveUp();
    }
  }

  /** The same apart from the loop that answers: others have their turn in between. */
  async judgeWithPauses(body: DecodedBody, agent: AgentRecord, pause: Pause): Promise<void> {
    const { shadow, request, shadows } = this.#parts;
    try {
      const allowance = shadow.allowances.begin(request.account, performance.now());
      for (let i = 0; i < body.elements; i++) {
        const work = body.judgingShadows(i, agent, { shadows, allowance });
        this.#judgements.push(await shadows.turns.do(work, pause));
        await pause();
      }
    } catch {
      this.#giveUp();
    }
  }

  /** `done`: called once, perhaps before this returns. */
  decide(judged: readonly (Decided | null)[], done: () => void): void {
    const asked = this.#toAsk(judged);
    if (asked.length === 0) {
      this.#decided(judged, asked, []);
      done();
      return;
    }
    const { shadow, request } = this.#parts;
    shadow.counters.ask(request.account, request.agentId, asked, (grants) => {
      this.#decided(judged, asked, grants);
      done();
    });
  }

  /** JSON of what they said; undefined: nothing. */
  element(judged: readonly (Decided | null)[]): string | undefined {
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
          let place = places.get(id);
          if (place === undefined) {
            place = element.shadows.push([id, revision]) - 1;
            places.set(id, place);
          }
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
      this.#parts.shadow.onJudged({ said: [...said], skipped: [...this.#skipped] });
  }

  #toAsk(judged: readonly (Decided | null)[]): ShadowCheck[] {
    try {
      return this.#asked(judged);
    } catch {
      this.#giveUp();
      return [];
    }
  }

  #asked(judged: readonly (Decided | null)[]): ShadowCheck[] {
    const asked: ShadowCheck[] = [];
    const lastOf = new Map<string, ShadowCheck>();
    for (const [event, judgement] of this.#judgements.entries()) {
      const decision = judged[event]?.decision;
      if (decision === undefined) continue;
      for (const [limit, check] of limitsOf(judgement, decision).entries()) {
        let last = lastOf.get(check.policyId);
        if (last?.check !== check) {
          last = { check, permits: 0, run: asked.length, places: [] };
          lastOf.set(check.policyId, last);
          asked.push(last);
        }
        last.permits++;
        last.places.push([event, limit]);
      }
    }
    return asked;
  }

  #decided(
    judged: readonly (Decided | null)[],
    asked: readonly ShadowCheck[],
    grants: readonly (QuotaGrant | undefined)[],
  ): void {
    try {
      const { shadows, nowMs } = this.#parts;
      const limits = this.#judgements.map((): LimitAnswer[] => []);
      for (const [i, { places }] of asked.entries()) {
        const granted = grants[i]?.granted;
        for (const [k, [event, limit]] of places.entries())
          limits[event]![limit] = granted === undefined ? 'unknown' : k < granted ? 'free' : 'over';
        if (granted === undefined) this.#skip('counters', places.length);
      }
      this.#said = this.#judgements.map((judgement, i) => {
        const decision = judged[i]?.decision;
        if (decision === undefined) return NONE;
        if (judgement !== null && 'skipped' in judgement) this.#skip(judgement.reason, judgement.skipped.length);
        return shadows.verdicts(judgement, decision, limits[i]!, nowMs);
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
    this.#said = [];
    this.#skip('error', this.#parts.shadows.policies.length);
  }
}

const NONE: readonly ShadowJudged[] = Object.freeze([]);
