// Which columns a list shows beside what each row says. They are in the address (`columns`, repeated), so that a link
// shows the same ones; an address without any shows the usual ones.
import type { ComponentChildren } from 'preact';
import { place, setParams } from '../core/router.ts';
import '../styles/lists.css';

export type Column<Row> = {
  /** In the address. */
  name: string;
  label: string;
  /** The width of a track of a grid. */
  width: string;
  isUsual?: true;
  /** Its digits stand one under the other. */
  isNumber?: true;
  cell: (row: Row) => ComponentChildren;
};

/** Stands in the address where none is chosen. */
const NONE = 'none';

export function chosenColumns<Row>(columns: readonly Column<Row>[]): readonly Column<Row>[] {
  const chosen = place.value.params.getAll('columns');
  return columns.filter(({ name, isUsual }) => (chosen.length === 0 ? isUsual === true : chosen.includes(name)));
}

export function ColumnMenu<Row>({ columns }: { columns: readonly Column<Row>[] }) {
  const shown = chosenColumns(columns).map(({ name }) => name);
  const usual = columns.filter(({ isUsual }) => isUsual).map(({ name }) => name);
  const choose = (name: string, isChosen: boolean) => {
    const next = columns.map((column) => column.name).filter((one) => (one === name ? isChosen : shown.includes(one)));
    const isUsual = next.join() === usual.join();
    setParams({ columns: isUsual ? undefined : next.length === 0 ? NONE : next }, { replace: true });
  };
  return (
    <details class="menu">
      <summary>Columns</summary>
      <fieldset>
        <legend class="hidden">Columns</legend>
        {columns.map(({ name, label }) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={shown.includes(name)}
              onChange={({ currentTarget }) => choose(name, currentTarget.checked)}
            />
            <span class="grow">{label}</span>
          </label>
        ))}
      </fieldset>
    </details>
  );
}

type LineProps<Row> = {
  row: Row;
  href: string;
  isOpen?: boolean;
  /** Tracks of what stands in front of what the row says. */
  leadWidths: string;
  lead: ComponentChildren;
  said: ComponentChildren;
  columns: readonly Column<Row>[];
};

/** A row of a list. Where there is one column (parts/side.tsx): the lead, then what it says, then the other columns. */
export function ListLine<Row>({ row, href, isOpen = false, leadWidths, lead, said, columns }: LineProps<Row>) {
  return (
    <a
      class={`list-line ${isOpen ? 'open' : ''}`}
      href={href}
      aria-current={isOpen ? 'true' : undefined}
      style={{ '--lead': leadWidths, '--columns': columns.map(({ width }) => width).join(' ') }}
    >
      {lead}
      <span class="said">{said}</span>
      {columns.map(({ name, isNumber, cell }) => (
        <span key={name} class={`column ${isNumber ? 'number' : ''}`}>
          {cell(row)}
        </span>
      ))}
    </a>
  );
}
