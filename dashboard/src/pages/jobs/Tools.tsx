// What surrounds the table: named views, columns, density, page size, export, and the call behind it.
import { useState } from "react";
import { prefix } from "../../api/client";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { Checkbox, Segments, TextField } from "../../ui/Field";
import { Menu, Popover } from "../../ui/Menu";
import { snakeCase } from "../operations/OperationDialog";
import { TITLES } from "./columns";
import { type Filter, toBody, toParameters, toQuery } from "./filter";
import { COLUMNS, type Prefs, SIZES, withView } from "./prefs";

type Props = {
  filter: Filter;
  prefs: Prefs;
  setPrefs: (change: Partial<Prefs>) => void;
  search: Record<string, string | undefined>;
  onView: (query: Record<string, string>) => void;
};

export function Tools({ filter, prefs, setPrefs, onView }: Props) {
  const query = (more: Record<string, string>) => new URLSearchParams({ ...toQuery(filter), ...more }).toString();
  const export_ = (kind: "csv" | "jsonl") => {
    const link = document.createElement("a");
    link.href = `${prefix}/api/jobs/export?${query({ format: kind })}`;
    link.download = `jobs.${kind}`;
    document.body.append(link);
    link.click();
    link.remove();
  };
  return (
    <>
      <Views filter={filter} prefs={prefs} setPrefs={setPrefs} onView={onView} />
      <Popover label="Columns" small look="quiet">
        <div className="jobs-options">
          {COLUMNS.map((column) => (
            <Checkbox
              key={column}
              label={TITLES[column]}
              checked={prefs.columns.includes(column)}
              disabled={column === "name"}
              onChange={(event) =>
                setPrefs({
                  columns: COLUMNS.filter((one) =>
                    one === column ? event.target.checked : prefs.columns.includes(one),
                  ),
                })
              }
            />
          ))}
          <Segments
            label="Density"
            value={prefs.density}
            options={["dense", "roomy"]}
            onChange={(density) => setPrefs({ density })}
          />
          <Segments
            label="Jobs on a page"
            value={prefs.size}
            options={SIZES.map((size): [typeof size, string] => [size, `${size} rows`])}
            onChange={(size) => setPrefs({ size })}
          />
        </div>
      </Popover>
      <Menu
        label="Export"
        small
        look="quiet"
        items={[
          { label: "As CSV", hint: "for spreadsheets", onSelect: () => export_("csv") },
          { label: "As JSON lines", hint: "for programs", onSelect: () => export_("jsonl") },
        ]}
      />
      <CallButton
        calls={[
          {
            title: "This list",
            path: `/api/jobs/search?${query({ limit: prefs.size })}`,
            python: pythonSearch(filter, prefs.size),
          },
          { title: "The counts", path: `/api/jobs/counts?${query({})}` },
          { title: "The export", path: `/api/jobs/export?${query({ format: "jsonl" })}` },
        ]}
      />
    </>
  );
}

/** The search as Python: instants are written as instants. */
export function pythonSearch(filter: Filter, size: string): string {
  const given = Object.entries(toBody(filter)).map(([key, value]) => {
    const instant = /(since|until)$/i.test(key) && typeof value === "string";
    return `${snakeCase(key)}=${instant ? `datetime.fromisoformat(${pythonLiteral(value)})` : pythonLiteral(value)}`;
  });
  return `page = await scheduler.search(${[...given, `limit=${size}`].join(", ")})`;
}

type ViewsProps = Pick<Props, "filter" | "prefs" | "setPrefs" | "onView">;

function Views({ filter, prefs, setPrefs, onView }: ViewsProps) {
  const [name, setName] = useState("");
  return (
    <Popover label="Views" small look="quiet">
      {(close) => (
        <div className="jobs-views">
          {prefs.views.length === 0 && <p className="muted">A view is a named filter. It is stored in this browser.</p>}
          {prefs.views.map((view) => (
            <div key={view.name} className="row spread">
              <Button
                small
                look="quiet"
                className="wrap"
                onClick={() => {
                  close();
                  onView(view.query);
                }}
              >
                {view.name}
              </Button>
              <Button
                small
                look="quiet"
                aria-label={`Remove the view ${view.name}`}
                onClick={() => setPrefs({ views: prefs.views.filter((one) => one.name !== view.name) })}
              >
                ✕
              </Button>
            </div>
          ))}
          <form
            className="row"
            onSubmit={(event) => {
              event.preventDefault();
              if (name.trim() === "") return;
              setPrefs({ views: withView(prefs.views, { name: name.trim(), query: toParameters(filter) }) });
              setName("");
            }}
          >
            <TextField
              label="Name of the view"
              hideLabel
              placeholder="Name this view"
              value={name}
              maxLength={80}
              onChange={(event) => setName(event.target.value)}
            />
            <Button type="submit" small>
              Save
            </Button>
          </form>
        </div>
      )}
    </Popover>
  );
}
