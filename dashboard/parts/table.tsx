// A table of what there is: a row each, its name first. Where there is no room for columns (style.css) a row is a card,
// each value behind the name of its column, so that nothing of it is outside of the page. The heads of a table that can
// be sorted are buttons; the order is in the address (`sort`, `order`).
// Invariant: only what is there as a whole is sorted: one page of many in order would be taken for the first of all.
import type { ComponentChildren } from 'preact';
import { place, setParams } from '../core/router.ts';
import { narrow } from './side.tsx';

/** The values that a row is sorted by, by column; null: it is not known, and last in either order. */
type SortValues = Readonly<Record<string, string | number | null>>;
type TableRow = { key: string; isOpen?: boolean; cells: readonly ComponentChildren[]; by?: SortValues };

type TableProps = {
  head: readonly string[];
  rows: readonly TableRow[];
  kind?: 'wide' | 'counts';
  /** Columns whose digits stand one under the other. */
  numbers?: readonly string[];
  /** `rows` are all that there are, or will be as soon as an order is asked for: by what their `by` has. */
  isWhole?: boolean;
};

/** `rows`: each with as many cells as `head` has names. `kind`: one of counts stays a table where there is no room. */
export function Table({ head, rows, kind = 'wide', numbers = [], isWhole = false }: TableProps) {
  const classOf = (name: string) => (numbers.includes(name) ? 'number' : undefined);
  const sortable = isWhole ? head.filter((name) => rows[0]?.by?.[name] !== undefined) : [];
  const sorted = sortable.find((name) => name === sortedBy());
  const isCounted = (name: string) => rows.some(({ by }) => typeof by?.[name] === 'number');
  const direction = (name: string) => (isAscending(isCounted(name)) ? 'ascending' : 'descending');
  const shown = sorted === undefined ? rows : inOrder(rows, sorted, isAscending(isCounted(sorted)));
  return (
    <table class={kind}>
      <thead>
        <tr>
          {head.map((name) =>
            sortable.includes(name) && !narrow.value ? (
              <th
                key={name}
                scope="col"
                class={classOf(name)}
                aria-sort={name === sorted ? direction(name) : undefined}
              >
                <SortButton name={name} isSorted={name === sorted} isCounted={isCounted(name)} />
              </th>
            ) : (
              <th key={name} scope="col" class={classOf(name)}>
                {name}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>
        {shown.map(({ key, isOpen = false, cells }) => (
          <tr key={key} class={isOpen ? 'open' : ''}>
            <th scope="row">{cells[0]}</th>
            {cells.slice(1).map((cell, i) => (
              <td key={head[i + 1]} class={classOf(head[i + 1]!)} data-label={head[i + 1]}>
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The column that the address names; null: none. */
export function sortedBy(): string | null {
  return place.value.params.get('sort');
}

/** The order at first: what is counted most, or the beginning of the alphabet. */
function isAscending(isCounted: boolean): boolean {
  const order = place.value.params.get('order');
  return order === null ? !isCounted : order === 'asc';
}

function inOrder(rows: readonly TableRow[], column: string, ascending: boolean): TableRow[] {
  const sortValue = ({ by }: TableRow) => by?.[column] ?? null;
  return [...rows].sort((one, other) => {
    const [a, b] = [sortValue(one), sortValue(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const difference = typeof a === 'number' ? a - Number(b) : a.localeCompare(String(b), 'en', { numeric: true });
    return ascending ? difference : -difference;
  });
}

/** Pressed again it turns the order, and once more it gives the list its own order back. */
function SortButton({ name, isSorted, isCounted }: { name: string; isSorted: boolean; isCounted: boolean }) {
  const ascending = isAscending(isCounted);
  const isTurned = ascending === isCounted;
  const next = !isSorted
    ? { sort: name, order: undefined }
    : isTurned
      ? { sort: undefined, order: undefined }
      : { order: ascending ? 'desc' : 'asc' };
  return (
    <button type="button" class="sorts" onClick={() => setParams(next, { replace: true })}>
      {name}
      <span aria-hidden="true">{isSorted && (ascending ? ' ↑' : ' ↓')}</span>
    </button>
  );
}
