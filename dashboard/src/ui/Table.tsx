// A table that scrolls inside itself on small screens. A row that cannot be drawn spoils itself alone.
import type { ReactNode } from "react";
import { Boundary } from "./Panel";
import "./Table.css";

export type Column<T> = {
  key: string;
  /** Empty over the actions of the rows. */
  title: ReactNode;
  cell: (row: T) => ReactNode;
  align?: "right";
  /** Hidden on small screens. */
  minor?: boolean;
  width?: string;
};

type Props<T> = {
  caption: string;
  columns: Column<T>[];
  rows: readonly T[];
  id: (row: T) => string;
  empty?: ReactNode;
  current?: string | null;
  selected?: (row: T) => boolean;
  onRowClick?: (row: T) => void;
};

export function Table<T>({ caption, columns, rows, id, empty, current, selected, onRowClick }: Props<T>) {
  if (rows.length === 0 && empty) return <>{empty}</>;
  return (
    // A region that can be scrolled must be reachable by the keyboard.
    <div className="table-scroll" role="region" aria-label={caption} tabIndex={0}>
      <table className="table">
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                className={`${column.align ?? ""} ${column.minor ? "minor" : ""}`}
                style={column.width ? { width: column.width } : undefined}
              >
                {column.title || <span className="visually-hidden">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Boundary key={id(row)} row={columns.length}>
              <tr
                aria-current={current === id(row) || undefined}
                aria-selected={selected?.(row) || undefined}
                onClick={onRowClick ? () => onRowClick(row) : undefined}
              >
                {columns.map((column) => (
                  <td key={column.key} className={`${column.align ?? ""} ${column.minor ? "minor" : ""}`}>
                    <Cell row={row} column={column} />
                  </td>
                ))}
              </tr>
            </Boundary>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A component of its own, so that the row's boundary catches what its cell throws. */
function Cell<T>({ row, column }: { row: T; column: Column<T> }) {
  return <>{column.cell(row)}</>;
}
