// Draws results as SVG: bars for things side by side, lines for what grows with what. No dependency.
// Colours are of middle lightness on no background, and the text follows the reader's light or dark scheme, so a chart
// reads on both. Every value is beside its mark: a chart is read without guessing at an axis.

type Bars = { title: string; unit: string; groups: { name: string; bars: { name: string; value: number }[] }[] };
type Lines = {
  title: string;
  xTitle: string;
  yTitle: string;
  /** Points more than a decade apart are drawn on a logarithmic axis where this says so. */
  logX?: boolean;
  logY?: boolean;
  series: { name: string; points: { x: number; y: number }[] }[];
};
export type Chart = ({ kind: 'bars' } & Bars) | ({ kind: 'lines' } & Lines);

const WIDTH = 760;
const PALETTE = ['#3b82c4', '#d9822b', '#3a9a5b', '#b0569c', '#8a7a3d', '#5f6ad0', '#c4504a', '#4a9aa8'];
const BAR_HEIGHT = 20;
const BAR_GAP = 6;
const LABEL_WIDTH = 190;
const VALUE_WIDTH = 90;
const PLOT = { left: 74, top: 44, width: WIDTH - 74 - 24, height: 260 };
/** Between the axis and the first point, for its value. */
const INSET = 18;
/** Past that values would cover each other; they are in the table. */
const MARKED_SERIES_MAX = 3;
const MARKED_POINTS_MAX = 12;

export function draw(chart: Chart): string {
  return chart.kind === 'bars' ? drawBars(chart) : drawLines(chart);
}

function drawBars({ title, unit, groups }: Bars): string {
  const largest = Math.max(...groups.flatMap(({ bars }) => bars.map(({ value }) => finite(value))), Number.MIN_VALUE);
  const names = [...new Set(groups.flatMap(({ bars }) => bars.map(({ name }) => name)))];
  const scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / largest;
  const parts: string[] = [];
  let y = 44;
  for (const group of groups) {
    parts.push(text(8, y + 4, group.name, 'class="strong"'));
    y += 16;
    for (const { name, value } of group.bars) {
      const width = Math.max(finite(value) * scale, 1);
      const middle = y + BAR_HEIGHT / 2 + 4;
      parts.push(
        text(LABEL_WIDTH - 8, middle, name, 'text-anchor="end"'),
        `<rect x="${LABEL_WIDTH}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" rx="2" fill="${colour(names.indexOf(name))}"/>`,
        text(LABEL_WIDTH + width + 6, middle, readable(value)),
      );
      y += BAR_HEIGHT + BAR_GAP;
    }
    y += 14;
  }
  return svg(y, `${title}, ${unit}`, parts);
}

function drawLines(chart: Lines): string {
  const { title, xTitle, yTitle, series } = chart;
  const points = series.flatMap((line) => line.points).filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
  const x = axis(
    points.map((point) => point.x),
    { log: chart.logX === true, fromZero: false },
  );
  const y = axis(
    points.map((point) => point.y),
    { log: chart.logY === true, fromZero: true },
  );
  const at = (point: { x: number; y: number }) =>
    [across(x.place(point.x)), PLOT.top + (1 - y.place(point.y)) * PLOT.height] as const;
  const parts = [...grid(x, y), ...axisTitles(xTitle, yTitle)];
  for (const [i, { name, points: own }] of series.entries()) {
    const path = own.map((point) =>
      at(point)
        .map((n) => n.toFixed(1))
        .join(','),
    );
    parts.push(`<polyline points="${path.join(' ')}" fill="none" stroke="${colour(i)}" stroke-width="2"/>`);
    if (series.length <= MARKED_SERIES_MAX && own.length <= MARKED_POINTS_MAX)
      parts.push(...own.map((point) => mark(at(point), point.y, i)));
    parts.push(...legend(name, i));
  }
  return svg(PLOT.top + PLOT.height + 56 + 18 * Math.ceil(series.length / LEGEND_COLUMNS), title, parts);
}

/** The value stands above its point. */
function mark([x, y]: readonly [number, number], value: number, series: number): string {
  return (
    `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="3" fill="${colour(series)}"/>` +
    text(x, y - 7, readable(value), 'class="small" text-anchor="middle"')
  );
}

/** Where a share of the axis lies. */
function across(share: number): number {
  return PLOT.left + INSET + share * (PLOT.width - 2 * INSET);
}

const LEGEND_COLUMNS = 4;

function legend(name: string, i: number): string[] {
  const left = PLOT.left + (i % LEGEND_COLUMNS) * (PLOT.width / LEGEND_COLUMNS);
  const y = PLOT.top + PLOT.height + 58 + 18 * Math.floor(i / LEGEND_COLUMNS);
  return [
    `<rect x="${left}" y="${y - 9}" width="10" height="10" rx="2" fill="${colour(i)}"/>`,
    text(left + 15, y, name),
  ];
}

type Axis = { place: (value: number) => number; ticks: number[] };

/** Maps values to 0…1 and says where to draw lines. */
export function axis(values: readonly number[], { log, fromZero }: { log: boolean; fromZero: boolean }): Axis {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (log && least > 0) {
    const [low, high] = [Math.log10(least), Math.log10(most)];
    const decades = Array.from(
      { length: Math.ceil(high) - Math.floor(low) + 1 },
      (_, i) => 10 ** (Math.floor(low) + i),
    );
    const [from, to] = fromZero ? [Math.floor(low), Math.ceil(high)] : [low, high];
    const place = (value: number) => (to === from ? 0.5 : (Math.log10(value) - from) / (to - from));
    return { place, ticks: decades.filter((tick) => place(tick) >= -1e-9 && place(tick) <= 1 + 1e-9) };
  }
  const from = fromZero ? Math.min(0, least) : least;
  const step = niceStep((most - from) / 5);
  const to = fromZero ? Math.max(Math.ceil(most / step) * step, from + step) : most;
  const place = (value: number) => (to === from ? 0.5 : (value - from) / (to - from));
  const first = Math.ceil(from / step);
  const ticks = Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
  return { place, ticks };
}

/** 1, 2 or 5 times a power of ten, not below `least`. */
function niceStep(least: number): number {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least * (1 - 1e-9))!;
}

function grid(x: Axis, y: Axis): string[] {
  const bottom = PLOT.top + PLOT.height;
  const horizontals = y.ticks.flatMap((tick) => {
    const at = PLOT.top + (1 - y.place(tick)) * PLOT.height;
    return [line(PLOT.left, at, PLOT.left + PLOT.width, at), text(PLOT.left - 8, at + 4, readable(tick), END)];
  });
  const down = x.ticks.flatMap((tick) => {
    const at = across(x.place(tick));
    return [line(at, bottom, at, bottom + 4), text(at, bottom + 18, readable(tick), 'text-anchor="middle"')];
  });
  return [...horizontals, ...down];
}

const END = 'text-anchor="end"';

function axisTitles(xTitle: string, yTitle: string): string[] {
  return [
    text(PLOT.left + PLOT.width / 2, PLOT.top + PLOT.height + 36, xTitle, 'text-anchor="middle"'),
    text(8, PLOT.top - 10, yTitle, 'class="small"'),
  ];
}

function line(x1: number, y1: number, x2: number, y2: number): string {
  const [a, b, c, d] = [x1, y1, x2, y2].map((n) => n.toFixed(1));
  return `<line x1="${a}" y1="${b}" x2="${c}" y2="${d}" stroke="#8a939d" stroke-opacity="0.35"/>`;
}

function text(x: number, y: number, content: string, attributes = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}"${attributes === '' ? '' : ` ${attributes}`}>${escaped(content)}</text>`;
}

function svg(height: number, title: string, parts: string[]): string {
  const style =
    'text{font:12px system-ui,sans-serif;fill:#6e7781}.strong{font-weight:600}.small{font-size:10px}' +
    '@media(prefers-color-scheme:dark){text{fill:#c9d1d9}}';
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${Math.ceil(height)}" viewBox="0 0 ${WIDTH} ${Math.ceil(height)}" role="img" aria-label="${escaped(title)}">`,
    `<style>${style}</style>`,
    text(8, 20, title, 'class="strong"'),
    ...parts,
    '</svg>\n',
  ].join('\n');
}

function colour(i: number): string {
  return PALETTE[i % PALETTE.length]!;
}

function finite(value: number): number {
  return Number.isFinite(value) ? value : 0;
}

/** Three significant digits, thousands apart: 1234567 is "1,230,000". */
export function readable(value: number): string {
  if (!Number.isFinite(value)) return '–';
  return Number(value.toPrecision(3)).toLocaleString('en-US', { maximumFractionDigits: 6 });
}

export function escaped(content: string): string {
  return content.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]!);
}
