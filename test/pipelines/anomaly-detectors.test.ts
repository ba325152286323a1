// The detectors by themselves, under the arrivals' own clock: what speaks, what stays silent, when an episode is over,
// what late and silent agents do to the windows, and that a kept baseline continues where it stopped. Ends with a short
// run of the simulation that the bench line `anomalies` runs at length, with the same seeds each time.

import t from 'tap';
import { injected, isPromised, steady } from '../../bench/anomalies.ts';
import { random, SHAPES, type Shape } from '../../bench/anomaly-traffic.ts';
import { BASELINE_BYTES, Baseline, decodeBaseline, encodeBaseline } from '../../pipelines/anomaly/baseline.ts';
import { descriptionOf, type Finding, severityOf } from '../../pipelines/anomaly/finding.ts';
import { observe } from '../../pipelines/anomaly/observe.ts';
import { binomialTail, countTail } from '../../pipelines/anomaly/tails.ts';
import { dispersionOf, levelOf } from '../../pipelines/anomaly/volume-spike.ts';
import type { EventType } from '../../schemas/closed-sets.ts';
import { runs } from '../support/seed.ts';

const START = Date.UTC(2026, 5, 1, 12) / 1000;

/** One agent and its clock, in seconds. */
class Subject {
  baseline = new Baseline();
  now = START;
  readonly found: Finding[] = [];

  event(type: EventType = 'tool_call', tokensUsed?: number, at = this.now): void {
    const more = tokensUsed === undefined ? {} : { tokensUsed };
    this.found.push(...observe(this.baseline, { type, receivedAt: Math.floor(at * 1000), ...more }));
  }

  /** `perSecond` events in each second; every `errorEvery`-th is an error. */
  run(seconds: number, perSecond: number, errorEvery = 50): void {
    for (let second = 0; second < seconds; second++) {
      for (let i = 0; i < perSecond; i++) this.event(++this.sent % errorEvery === 0 ? 'error' : 'tool_call');
      this.now++;
    }
  }
  sent = 0;

  take(): string[] {
    return this.found.splice(0).map(({ kind }) => kind);
  }
}

t.test('tails are those of the distributions, as summed term by term', async (t) => {
  let sum = 0;
  for (let k = 12; k <= 40; k++) sum += choose(40, k) * 0.1 ** k * 0.9 ** (40 - k);
  t.ok(Math.abs(binomialTail(12, 40, 0.1) / sum - 1) < 1e-9, 'binomial');
  let poisson = 0;
  let term = Math.exp(-30);
  for (let k = 1; k < 200; k++) {
    term *= 30 / k;
    if (k >= 60) poisson += term;
  }
  t.ok(countTail(60, 30, 1) / poisson > 1 && countTail(60, 30, 1) / poisson < 1.5, 'Poisson, never below');
  // Variance over mean 2: a geometric-like count; P(X >= 1) = 1 - (1/2)^mean.
  t.ok(Math.abs(countTail(1, 3, 2) - (1 - 0.5 ** 3)) < 1e-12, 'negative binomial');
  t.same([binomialTail(0, 5, 0.1), binomialTail(6, 5, 0.1), countTail(0, 5, 2), countTail(3, 0, 2)], [1, 0, 1, 0]);
});

t.test('a completion far above the history is a token spike, from the 21st completion on', async (t) => {
  const agent = new Subject();
  const draw = random(7);
  for (let i = 0; i < 19; i++) agent.event('completion', 1_000 + Math.floor(draw() * 400));
  agent.event('completion', 40_000);
  t.same(agent.take(), [], 'the 20th has no history yet');
  const fresh = new Subject();
  for (let i = 0; i < 20; i++) fresh.event('completion', 1_000 + Math.floor(draw() * 400));
  fresh.event('completion', 18_340);
  const [finding] = fresh.found;
  t.match(finding, { kind: 'token_spike', observed: 18_340 });
  t.ok(finding!.score > 4);
  t.match(descriptionOf(finding!), /^A completion used 18,340 tokens; this agent usually uses about 1,[123]00\.$/);
  t.equal(severityOf(finding!), 'medium');
  fresh.take();
  fresh.event('prompt', 900_000);
  fresh.event('completion');
  t.same(fresh.take(), [], 'other types and unknown tokens say nothing');
});

t.test('a completion of 0 tokens is no history', async (t) => {
  const draw = random(9);
  const usual = () => 1_000 + Math.floor(draw() * 400);
  const zeros = new Subject();
  for (let i = 0; i < 200; i++) zeros.event('completion', 0);
  for (let i = 0; i < 20; i++) zeros.event('completion', usual());
  t.same(zeros.take(), [], 'what comes after zeros is no spike');
  t.equal(zeros.baseline.completions, 20);
  const [mixed, plain] = [new Subject(), new Subject()];
  for (let i = 0; i < 100; i++) {
    const tokens = usual();
    mixed.event('completion', tokens);
    plain.event('completion', tokens);
    mixed.event('completion', 0);
  }
  for (const agent of [mixed, plain]) agent.event('completion', 18_340);
  t.same(mixed.take(), ['token_spike'], 'zeros in between do not hide one');
  t.equal(mixed.baseline.tokenMean, plain.baseline.tokenMean);
});

t.test('below 1,000 tokens nothing is a spike', async (t) => {
  const draw = random(10);
  const agent = new Subject();
  for (let i = 0; i < 100; i++) agent.event('completion', 10 + Math.floor(draw() * 4));
  agent.event('completion', 999);
  t.same(agent.take(), [], 'eighty times the usual, and little all the same');
  agent.event('completion', 1_500);
  t.same(agent.take(), ['token_spike']);
});

t.test('a spike does not become its own baseline; a lasting change does, after five', async (t) => {
  const agent = new Subject();
  const draw = random(8);
  const usual = (times: number) => () => Math.round(times * (1_000 + draw() * 400));
  for (let i = 0; i < 200; i++) agent.event('completion', usual(1)());
  for (let i = 0; i < 4; i++) {
    agent.event('completion', 15_000);
    for (let n = 0; n < 20; n++) agent.event('completion', usual(1)());
    // More than six hours apart they are four stories, not the beginning of one.
    agent.now += 7 * 3_600;
  }
  t.same(agent.take(), Array(4).fill('token_spike'));
  t.ok(Math.exp(agent.baseline.tokenMean) < 1_400);
  for (let i = 0; i < 300; i++) agent.event('completion', usual(12)());
  t.equal(agent.take().length, 5, 'then it is how this agent is');
  agent.event('completion', usual(120)());
  t.same(agent.take().length, 1, 'and the new level has its own spikes');
});

t.test('volume is flagged once an episode, ends with it, and is flagged again', async (t) => {
  const agent = new Subject();
  agent.run(1_200, 5);
  t.same(agent.take(), []);
  agent.run(60, 50);
  const [finding] = agent.found;
  t.match(finding, { kind: 'volume_spike' });
  t.ok(finding!.observed >= 100 && finding!.observed <= 250, 'within the first seconds');
  t.match(descriptionOf(finding!), /events in the last 10 seconds; this agent usually sends about [45]\d\.$/);
  t.same(agent.take(), ['volume_spike']);
  t.ok(agent.baseline.volumeSince > 0);
  agent.run(120, 5);
  t.equal(agent.baseline.volumeSince, 0, 'over');
  t.ok(Math.abs(agent.baseline.mean - 50) < 1, 'and nothing of it was learnt');
  agent.run(30, 50);
  t.same(agent.take(), ['volume_spike'], 'the next one is news');
});

t.test('a level that stays is the new normal after half an hour; fewer than 50 events are never news', async (t) => {
  const agent = new Subject();
  agent.run(1_200, 5);
  agent.run(1_900, 50);
  t.same(agent.take(), ['volume_spike']);
  t.equal(agent.baseline.volumeSince, 0);
  agent.run(1_200, 50);
  t.same(agent.take(), []);
  t.ok(Math.abs(levelOf(agent.baseline) - 500) < 50);
  const quiet = new Subject();
  for (let i = 0; i < 400; i++) {
    quiet.event();
    quiet.now += 10;
  }
  quiet.run(10, 4);
  t.same(quiet.take(), []);
  t.ok(dispersionOf(quiet.baseline) >= 1);
});

t.test('errors are flagged once an episode, and a lasting share becomes the usual one', async (t) => {
  const agent = new Subject();
  agent.run(1_800, 5);
  t.same(agent.take(), []);
  agent.run(60, 5, 2);
  t.match(
    descriptionOf(agent.found[0]!),
    /^\d+ of \d+ events in the last (10|20|60) seconds were errors \(\d+(\.\d)?%\)/,
  );
  t.same(agent.take(), ['error_rate']);
  agent.run(300, 5);
  t.equal(agent.baseline.errorSince, 0, 'over');
  t.same(agent.take(), []);
  agent.run(2_400, 5, 2);
  t.same(agent.take(), ['error_rate'], 'one for forty minutes');
  t.equal(agent.baseline.errorSince, 0);
  agent.run(600, 5, 2);
  t.same(agent.take(), [], 'half of them errors is usual now');
});

t.test('late events, clocks set back and long silences raise nothing', async (t) => {
  const agent = new Subject();
  agent.run(1_200, 5);
  const draw = random(9);
  for (let second = 0; second < 600; second++) {
    // Five fronts, up to 40 s apart and out of order.
    for (let i = 0; i < 5; i++) agent.event('tool_call', undefined, agent.now - draw() * 40);
    agent.now++;
  }
  t.same(agent.take(), []);
  for (let i = 0; i < 90; i++) agent.event('error', undefined, agent.now - 4_000);
  t.same(agent.take(), [], 'what lies an hour back is old news');
  agent.run(5, 5);
  agent.now -= 7_200;
  agent.run(1_200, 5);
  t.same(agent.take(), [], 'two hours back');
  t.equal(agent.baseline.second, Math.floor(agent.now) - 1, 'its clock is followed');
  const before = agent.baseline.mean;
  agent.now += 5 * 86_400;
  agent.run(1_200, 5);
  t.same(agent.take(), [], 'five days of silence, then as before');
  t.ok(Math.abs(agent.baseline.mean - before) < 5);
});

t.test('from the second day on, a morning is no news', async (t) => {
  const agent = new Subject();
  agent.now = Date.UTC(2026, 5, 1, 10) / 1000;
  const until = Date.UTC(2026, 5, 4, 10) / 1000;
  while (agent.now < until) {
    const hour = Math.floor(agent.now / 3_600) % 24;
    agent.run(60, hour >= 9 && hour < 17 ? 20 : 1);
  }
  t.same(agent.take(), []);
});

t.test('a baseline is of fixed size and goes on where it stopped; another version is none', async (t) => {
  const agent = new Subject();
  agent.run(3_000, 7, 20);
  for (let i = 0; i < 500; i++) agent.event('completion', 1_000 + i);
  agent.take();
  const kept = encodeBaseline(agent.baseline);
  t.equal(kept.length, BASELINE_BYTES);
  const copy = new Subject();
  copy.baseline = decodeBaseline(kept)!;
  copy.now = agent.now;
  copy.sent = agent.sent;
  for (const one of [agent, copy]) {
    one.run(300, 7, 20);
    one.run(20, 100, 3);
    one.event('completion', 100_000);
  }
  t.same(copy.take(), agent.take());
  t.same(encodeBaseline(copy.baseline).subarray(0, 73), encodeBaseline(agent.baseline).subarray(0, 73));
  const other = Buffer.from(kept);
  other[0] = 9;
  t.equal(decodeBaseline(other), null);
  t.equal(decodeBaseline(Buffer.from('-')), null);
});

t.test('216 agent-hours of each shape raise next to nothing', async (t) => {
  const shapes = Object.keys(SHAPES) as Shape[];
  for (const shape of shapes.slice(0, runs(shapes.length))) {
    const { alarms, events } = steady(shape, 216, 11, 24);
    const total = Object.values(alarms).reduce((sum, count) => sum + count, 0);
    t.ok(total <= 1 && events > 100_000, `${shape}: ${total} in ${events} events`);
  }
});

t.test('injected spikes are found where the counts that are asked for are there', async (t) => {
  for (const rate of [5]) {
    for (const result of injected('constant', rate, 1, 5)) {
      t.ok(isPromised(result));
      t.ok(result.found >= 0.98 * result.tries, `${result.kind}: ${result.found} of ${result.tries}`);
      t.ok(result.kind === 'token_spike' || result.soon >= 0.98 * result.tries, `${result.soon} within 10 s`);
    }
  }
});

function choose(n: number, k: number): number {
  let product = 1;
  for (let i = 1; i <= k; i++) product *= (n - k + i) / i;
  return product;
}

t.test('what a collector sends late counts when it happened', async (t) => {
  const late = (isObserved: boolean) => {
    const agent = new Subject();
    agent.run(3_600, 2);
    agent.take();
    // An hour at two a second, all of it within three seconds.
    for (let i = 0; i < 7_200; i++) {
      const occurredAt = Math.floor((agent.now + i / 2) * 1000);
      const receivedAt = Math.floor((agent.now + 3_600 + i / 2_400) * 1000);
      const observed = isObserved ? { observed: true as const } : {};
      agent.found.push(...observe(agent.baseline, { type: 'tool_call', receivedAt, occurredAt, ...observed }));
    }
    return agent.take();
  };
  t.same(late(true), []);
  t.same([...new Set(late(false))], ['volume_spike'], 'by its arrival it would be a spike');
});
