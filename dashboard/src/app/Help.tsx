import { prefix } from "../api/client";
import { Dialog } from "../ui/Dialog";
import { offeredShortcuts } from "./keys";
import "../ui/Table.css";

/** The shortcuts that are offered now, and where to read more. */
export function Help({ onClose }: { onClose: () => void }) {
  const rows = [{ keys: "Ctrl K", what: "Go to a page, a job or a schedule" }, ...offeredShortcuts()];
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Keys</th>
            <th scope="col">What they do</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((one) => (
            <tr key={one.keys}>
              <td>
                <kbd className="mono">{one.keys}</kbd>
              </td>
              <td>{one.what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="sentence">
        The HTTP API behind every page is described in <a href={`${prefix}/docs`}>its documentation</a>.
      </p>
    </Dialog>
  );
}
