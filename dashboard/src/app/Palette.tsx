// The palette: go to a page, or to what an id or a name leads to.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useRole } from "../api/session";
import { Dialog } from "../ui/Dialog";
import { chooseTheme } from "./theme";
import { usePages } from "./Shell";
import { matching, type Place } from "./places";
import "./Palette.css";

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const pages = usePages();
  const { can } = useRole();
  const go = (to: string, search?: Record<string, string>) => () => void navigate({ to, search } as never);
  const fixed: Place[] = [
    ...pages.map((page) => ({ title: page.title, hint: `g ${page.key}`, run: go(page.path) })),
    ...(can("operator")
      ? [
          { title: "New job", hint: "", run: go("/jobs/new") },
          { title: "New schedule", hint: "", run: go("/schedules/-/new") },
        ]
      : []),
    { title: "Calendar of coming firings", hint: "", run: go("/schedules/-/calendar") },
    { title: "Calendars of days off", hint: "", run: go("/schedules/-/calendars") },
    { title: "Failed jobs", hint: "", run: go("/jobs", { state: "failed" }) },
    { title: "Running jobs", hint: "", run: go("/jobs", { state: "running" }) },
    { title: "Dark theme", hint: "", run: () => chooseTheme("dark") },
    { title: "Light theme", hint: "", run: () => chooseTheme("light") },
    { title: "Theme of the system", hint: "", run: () => chooseTheme("system") },
  ];
  const typed = text.trim();
  const leads: Place[] = typed
    ? [
        { title: `Job ${typed}`, hint: "by its id", run: go(`/jobs/${encodeURIComponent(typed)}`) },
        { title: `Jobs named ${typed}`, hint: "name", run: go("/jobs", { name: typed }) },
        { title: `Flow ${typed}`, hint: "by its id", run: go(`/flows/${encodeURIComponent(typed)}`) },
        { title: `Schedule ${typed}`, hint: "by its id", run: go(`/schedules/${encodeURIComponent(typed)}`) },
        { title: `Queue ${typed}`, hint: "", run: go(`/queues/${encodeURIComponent(typed)}`) },
      ]
    : [];
  const found = [...matching(fixed, typed), ...leads];
  const chosen = Math.min(at, found.length - 1);
  const run = (place: Place | undefined) => {
    onClose();
    place?.run();
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        className="input palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[chosen] ? `palette-${chosen}` : undefined}
        aria-label="A page, an id or a name"
        placeholder="A page, an id or a name"
        value={text}
        autoFocus
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            const step = event.key === "ArrowDown" ? 1 : -1;
            setAt((chosen + step + found.length) % Math.max(1, found.length));
          }
          if (event.key === "Enter") {
            event.preventDefault();
            run(found[chosen]);
          }
        }}
      />
      <div className="palette-list" role="listbox" id="palette-list" aria-label="Places">
        {found.map((place, index) => (
          <div
            key={place.title}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            className="palette-item"
            onMouseMove={() => setAt(index)}
            onClick={() => run(place)}
            onKeyDown={() => undefined}
          >
            <span className="wrap">{place.title}</span>
            <span className="muted">{place.hint}</span>
          </div>
        ))}
      </div>
    </Dialog>
  );
}
