// Events over time, stacked, drawn by uPlot; a stretch that is marked becomes the range. Beside it stands the same as a
// table.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import { KINDS, useNames } from '../core/by-id.ts';
import { axisLabel, drawnSeries, OTHERS, stackedHeights } from '../core/chart.ts';
import { timeText, zone } from '../core/time.ts';
import type { EventHistogram } from '../core/types.ts';
import { Time } from './buttons.tsx';
import { colourOf, dark } from './colours.ts';
import { Literal } from './literal.tsx';

const HEIGHT_PX = 130;
/** Room for the longest label, `18:04:05.125`. */
const AXIS_SPACE_PX = 90;
const DAY_STEPS = [1, 2, 7, 14, 28].map((days) => days * 86_400);

/** Counts over time, of whatever they are. `days`: a bucket is a day of UTC, whatever zone times are shown in. */
export type Counted = Pick<EventHistogram, 'from' | 'bucket_ms' | 'values' | 'buckets'> & {
  by: string;
  days?: true;
  has_other?: boolean;
};
type HistogramProps = {
  data: Counted;
  /** Left out: events by what `by` says. */
  label?: string;
  /** Left out: no stretch can be marked. */
  onRange?: (fromIso: string, toIso: string) => void;
  /** Beside the legend. */
  children?: ComponentChildren;
};

export function Histogram({ data, label = `Events over time by ${data.by}`, onRange, children }: HistogramProps) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(onRange);
  latest.current = onRange;
  useEffect(() => {
    const element = box.current;
    if (element === null || data.from === null) return undefined;
    const series = drawnOf(data);
    let plot: uPlot | undefined;
    const watch = new ResizeObserver(() => plot?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    watch.observe(element);
    let isGone = false;
    // Comes when it is needed: rows are on screen before there is anything to draw.
    void import('uplot').then(({ default: Plot }) => {
      if (!isGone)
        plot = new Plot(optionsOf(series, Plot, { width: element.clientWidth, latest }), stackOf(series), element);
    });
    return () => {
      isGone = true;
      watch.disconnect();
      plot?.destroy();
    };
  }, [data, zone.value, dark.value]);
  const names = namesOf(data);
  const drawn = namesOf(drawnOf(data));
  const kind = KINDS[data.by];
  const shownAs = useNames(kind ?? 'agents', kind === undefined ? [] : names);
  const titleOf = (name: string) => (name === '' ? '(none)' : kind === undefined ? name : shownAs(name));
  return (
    <figure class="histogram" aria-label={label}>
      <div class="bar">
        <span class="legend grow">
          {drawn.map((name, i) => (
            <span key={name}>
              <i class="swatch" style={{ background: colourOf(data.by, name, i) }} />
              <Literal text={name === OTHERS ? 'others' : titleOf(name)} />
            </span>
          ))}
        </span>
        {children}
      </div>
      <div ref={box} aria-hidden="true" class="plot" />
      <details>
        <summary>The same as a table</summary>
        <section class="scroll" tabIndex={0} aria-label="Counts">
          <table>
            <thead>
              <tr>
                <th scope="col">{data.days ? 'Day' : 'From'}</th>
                {names.map((name) => (
                  <th key={name} scope="col">
                    <Literal text={titleOf(name)} />
                  </th>
                ))}
                <th scope="col">All</th>
              </tr>
            </thead>
            <tbody>
              {data.buckets.map((bucket) => (
                <tr key={bucket.at}>
                  <th scope="row">{data.days ? bucket.at.slice(0, 10) : <Time at={bucket.at} />}</th>
                  {names.map((name) => (
                    <td key={name}>{bucket.counts[name] ?? 0}</td>
                  ))}
                  <td>{bucket.total}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </details>
    </figure>
  );
}

function drawnOf(data: Counted): Counted {
  return { ...data, ...drawnSeries(data) };
}

/** Values in a steady order, so that a colour keeps its meaning. */
function namesOf({ by, values }: Counted): string[] {
  const order = ['allowed', 'pending', 'blocked'];
  return by === 'outcome' ? [...values].sort((a, b) => order.indexOf(a) - order.indexOf(b)) : values;
}

/** The tallest first: each series is drawn from the ground, and the next one over it. */
function stackOf(data: Counted): uPlot.AlignedData {
  const at = data.buckets.map((bucket) => Date.parse(bucket.at) / 1000);
  return [at, ...stackedHeights(data, namesOf(data)).reverse()];
}

type Drawn = { width: number; latest: { current: HistogramProps['onRange'] } };

function optionsOf(data: Counted, Plot: typeof uPlot, { width, latest }: Drawn): uPlot.Options {
  const names = namesOf(data);
  const bars = Plot.paths.bars!({ size: [0.9, 60], align: 1 });
  const ink = dark.value ? '#a9b4c4' : '#4a5568';
  const grid = { stroke: dark.value ? '#2c3646' : '#e4e8ee', width: 1 };
  const bucketMs = data.bucket_ms;
  const [first = 0, last = first] = [data.buckets[0], data.buckets.at(-1)].map((one) => Date.parse(one!.at) / 1000);
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { y: false, drag: { x: latest.current !== undefined, y: false, setScale: false } },
    scales: {
      x: { time: true, range: () => [first, last + bucketMs / 1000] },
      y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.05)] },
    },
    tzDate: (seconds) =>
      zone.value === 'utc' || data.days ? Plot.tzDate(new Date(seconds * 1000), 'Etc/UTC') : new Date(seconds * 1000),
    axes: [
      {
        stroke: ink,
        grid: { show: false },
        ticks: grid,
        space: AXIS_SPACE_PX,
        ...(data.days ? { incrs: DAY_STEPS } : {}),
        values: (_plot, at, _i, _space, step) =>
          at.map((one) =>
            data.days
              ? new Date(one * 1000).toISOString().slice(5, 10)
              : axisLabel(timeText(Math.round(one * 1000)), step),
          ),
      },
      {
        stroke: ink,
        grid,
        ticks: { show: false },
        size: 52,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6],
      },
    ],
    series: [
      {},
      ...names
        .map((name, i) => ({
          label: name,
          fill: colourOf(data.by, name, i),
          width: 0,
          paths: bars,
          points: { show: false },
        }))
        .reverse(),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width: wide } = plot.select;
          if (wide < 4) return;
          const starts = data.buckets.map(({ at }) => Date.parse(at));
          const at = (px: number) => starts.findLastIndex((start) => start <= plot.posToVal(px, 'x') * 1000);
          const [from, to] = [Math.max(0, at(left)), Math.max(0, at(left + wide))];
          // To the last microsecond: events have these, and both ends are included.
          const end = (starts[to + 1] ?? starts[to]! + bucketMs) - 1;
          latest.current?.(new Date(starts[from]!).toISOString(), new Date(end).toISOString().replace('Z', '999Z'));
        },
      ],
    },
  };
}
