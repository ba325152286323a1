// Counts of the same things by day, by agent, by tool: drawn where it is by day, with its table, else as a table.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Counted } from './histogram.tsx';
import { Histogram } from './histogram.tsx';
import { Table } from './table.tsx';

const DAY_MS = 86_400_000;

export type Counts = Record<string, number>;

/** `names`: what is drawn, in this order. Days are of UTC. */
export function CountsByDay({
  label,
  days,
  names,
}: {
  label: string;
  days: readonly { day: string; counts: Counts; total: number }[];
  names: readonly string[];
}) {
  const data = useMemo<Counted>(() => {
    const first = days[0] === undefined ? null : `${days[0].day}T00:00:00.000Z`;
    return {
      ...{ by: 'change', days: true, from: first, bucket_ms: DAY_MS, values: [...names] },
      buckets: days.map(({ day, counts, total }) => ({ at: `${day}T00:00:00.000Z`, counts, total })),
    };
  }, [JSON.stringify(days), names.join()]);
  if (days.length === 0 || names.length === 0) return null;
  return <Histogram data={data} label={label} />;
}

export function CountsTable({
  label,
  head,
  names,
  lines,
}: {
  label: string;
  /** The head of the first column. */
  head: string;
  names: readonly string[];
  lines: readonly { key: string; title: ComponentChildren; counts: Counts }[];
}) {
  if (lines.length === 0) return null;
  return (
    <section class="scroll tall" tabIndex={0} aria-label={label}>
      <Table
        kind="counts"
        head={[head, ...names]}
        rows={lines.map(({ key, title, counts }) => ({
          key,
          cells: [title, ...names.map((name) => (counts[name] ?? 0).toLocaleString('en'))],
        }))}
      />
    </section>
  );
}
