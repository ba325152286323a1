// What was observed against what was usual, drawn by uPlot: the points, the baseline, the threshold, the anomaly itself
// marked.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { axisLabel } from '../core/chart.ts';
import { timeText, zone } from '../core/time.ts';
import type { Series } from '../core/types.ts';
import { Time } from './buttons.tsx';
import { dark } from './colours.ts';

const HEIGHT_PX = 240;

export function SeriesChart({ series }: { series: Series }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (element === null || series.points.length === 0) return undefined;
    const plot = new uPlot(optionsOf(series, element.clientWidth), dataOf(series), element);
    const watch = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [series, zone.value, dark.value]);
  return (
    <figure aria-label="Observed against the baseline">
      <div class="legend">
        <span>
          <i class="swatch" style={{ background: '#5b8def' }} /> observed
        </span>
        <span>
          <i class="swatch" style={{ background: '#3a9e8f' }} /> usual
        </span>
        <span>
          <i class="swatch" style={{ background: '#d9a514' }} /> never flagged below
        </span>
        <span>
          <i class="swatch" style={{ background: '#c8372d' }} /> the anomaly
        </span>
      </div>
      <div ref={box} aria-hidden="true" class="plot" />
      <details>
        <summary>The same as a table</summary>
        <section class="scroll" tabIndex={0} aria-label="Points">
          <table>
            <thead>
              <tr>
                <th scope="col">At</th>
                <th scope="col">Observed</th>
                <th scope="col">Usual</th>
              </tr>
            </thead>
            <tbody>
              {series.points.map(({ at, value }) => (
                <tr key={at}>
                  <th scope="row">
                    <Time at={at} millis />
                  </th>
                  <td>{value === null ? 'none' : value.toLocaleString('en')}</td>
                  <td>{series.baseline === null ? 'none' : series.baseline.toLocaleString('en')}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </details>
    </figure>
  );
}

function dataOf({ points, baseline, threshold }: Series): uPlot.AlignedData {
  return [
    points.map(({ at }) => Date.parse(at) / 1000),
    points.map(({ value }) => value),
    points.map(() => baseline),
    points.map(() => threshold),
  ];
}

function optionsOf({ anomaly, bucket_ms: bucketMs }: Series, width: number): uPlot.Options {
  const ink = dark.value ? '#a9b4c4' : '#4a5568';
  const grid = { stroke: dark.value ? '#2c3646' : '#e4e8ee', width: 1 };
  const at = Date.parse(anomaly.timestamp) / 1000;
  const half = Math.max((bucketMs ?? 0) / 1000, 1);
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(max * 1.1, Number.EPSILON)] } },
    tzDate: (seconds) =>
      zone.value === 'utc' ? uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') : new Date(seconds * 1000),
    axes: [
      {
        stroke: ink,
        grid: { show: false },
        ticks: grid,
        space: 90,
        values: (_plot, at, _i, _space, step) => at.map((one) => axisLabel(timeText(Math.round(one * 1000)), step)),
      },
      { stroke: ink, grid, ticks: { show: false }, size: 64 },
    ],
    series: [
      {},
      { stroke: '#5b8def', width: 1.5, points: { show: true, size: 4 } },
      { stroke: '#3a9e8f', width: 1.5, points: { show: false } },
      { stroke: '#d9a514', width: 1.5, dash: [4, 4], points: { show: false } },
    ],
    hooks: {
      drawClear: [
        (plot) => {
          const from = plot.valToPos(at - half, 'x', true);
          const to = plot.valToPos(at + half, 'x', true);
          plot.ctx.fillStyle = 'rgba(200, 55, 45, 0.25)';
          plot.ctx.fillRect(from - 1, plot.bbox.top, Math.max(3, to - from), plot.bbox.height);
        },
      ],
    },
  };
}
