// A table of what there is: a row each, its name first. Where there is no room for columns (style.css) a row is a card,
// each value behind the name of its column, so that nothing of it is outside of the page.
import type { ComponentChildren } from 'preact';

type TableRow = { key: string; isOpen?: boolean; cells: readonly ComponentChildren[] };

type TableProps = {
  head: readonly string[];
  rows: readonly TableRow[];
  kind?: 'wide' | 'counts';
  /** Columns whose digits stand one under the other. */
  numbers?: readonly string[];
};

/** `rows`: each with as many cells as `head` has names. `kind`: one of counts stays a table where there is no room. */
export function Table({ head, rows, kind = 'wide', numbers = [] }: TableProps) {
  const classOf = (name: string) => (numbers.includes(name) ? 'number' : undefined);
  return (
    <table class={kind}>
      <thead>
        <tr>
          {head.map((name) => (
            <th key={name} scope="col" class={classOf(name)}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, isOpen = false, cells }) => (
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
