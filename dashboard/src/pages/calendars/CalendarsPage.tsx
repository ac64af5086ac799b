// Calendars: named sets of days that schedules leave out, typed or out of an .ics file.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { PageHead } from "../../app/PageHead";
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { Segments, TextArea, TextField } from "../../ui/Field";
import { Menu } from "../../ui/Menu";
import { Empty } from "../../ui/Panel";
import type { Column } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { NameField } from "../settings/fields";
import { CALENDARS, useCalendars } from "../settings/queries";
import { FormDialog, RemoveDialog, Shelf } from "../settings/Shelf";
import { daysWords, listed, rangesOf } from "../settings/words";

type Calendar = NonNullable<ReturnType<typeof useCalendars>["data"]>[number];
type Open = { what: "put"; calendar?: Calendar } | { what: "delete"; calendar: Calendar } | null;

export default function CalendarsPage() {
  return (
    <>
      <PageHead title="Calendars">
        <Link className="button" to="/schedules">
          All schedules
        </Link>
      </PageHead>
      <Calendars />
    </>
  );
}

function Calendars() {
  const calendars = useCalendars();
  const may = useRole().can("operator");
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  return (
    <Shelf
      title="Days that schedules leave out"
      calls={[
        { path: "/api/calendars", python: "calendars = await scheduler.calendars.all()" },
        {
          title: "Store a calendar",
          method: "PUT",
          path: "/api/calendars/holidays",
          body: { days: ["2030-12-24"], yearly: ["12-25"] },
          python: 'await scheduler.calendars.put("holidays", Calendar(days=["2030-12-24"], yearly=["12-25"]))',
        },
      ]}
      add={may && "Store a calendar"}
      onAdd={() => setOpen({ what: "put" })}
      query={calendars}
      caption="Calendars by name"
      id={(calendar) => calendar.name}
      columns={columns(may, setOpen)}
      empty={
        <Empty
          title="No calendar is stored"
          command={'await scheduler.calendars.import_ics("holidays", Path("holidays.ics").read_text())'}
        >
          A schedule skips the days of the calendars that it names, such as holidays.
        </Empty>
      }
    >
      {open?.what === "put" && <PutDialog of={open.calendar} onClose={close} />}
      {open?.what === "delete" && <DeleteDialog of={open.calendar} onClose={close} />}
    </Shelf>
  );
}

function columns(may: boolean, open: (what: Open) => void): Column<Calendar>[] {
  return [
    { key: "name", title: "Name", cell: (calendar) => <span className="mono wrap">{calendar.name}</span> },
    { key: "days", title: "Days", cell: (calendar) => <span className="wrap">{daysWords(calendar)}</span> },
    {
      key: "words",
      title: "Description",
      cell: (calendar) => <span className="wrap">{calendar.description}</span>,
      minor: true,
    },
    { key: "rev", title: "Revision", align: "right", cell: (calendar) => calendar.rev, minor: true },
    { key: "updated", title: "Stored", cell: (calendar) => <Time at={calendar.updatedAt} />, minor: true },
    {
      key: "actions",
      title: <span className="visually-hidden">Actions</span>,
      align: "right",
      cell: (calendar) =>
        may && (
          <Menu
            small
            look="quiet"
            label="⋯"
            name={`Actions on the calendar ${calendar.name}`}
            items={[
              { label: "Edit …", onSelect: () => open({ what: "put", calendar }) },
              { label: "Delete …", danger: true, onSelect: () => open({ what: "delete", calendar }) },
            ]}
          />
        ),
    },
  ];
}

function PutDialog({ of: calendar, onClose }: { of?: Calendar; onClose: () => void }) {
  const [name, setName] = useState(calendar?.name ?? "");
  const [days, setDays] = useState(calendar?.days.join("\n") ?? "");
  const [ranges, setRanges] = useState(calendar?.ranges.map(([first, last]) => `${first} to ${last}`).join("\n") ?? "");
  const [yearly, setYearly] = useState(calendar?.yearly.join(", ") ?? "");
  const [weekdays, setWeekdays] = useState(calendar?.weekdays.join(", ") ?? "");
  const [description, setDescription] = useState(calendar?.description ?? "");
  const [way, setWay] = useState<"days" | "file">("days");
  const [file, setFile] = useState<File | null>(null);
  const body = {
    days: listed(days) ?? [],
    ranges: rangesOf(ranges),
    yearly: listed(yearly) ?? [],
    weekdays: listed(weekdays) ?? [],
    description: description.trim(),
  };
  const act = useAct(
    async () => {
      if (way === "file") return putFile(name.trim(), file);
      return (await unwrap(api.PUT("/api/calendars/{name}", { params: { path: { name: name.trim() } }, body }))).data;
    },
    {
      touches: [CALENDARS, ["schedules"]],
      onDone: onClose,
      done: (stored) => `The calendar ${stored.name} is stored, revision ${stored.rev}.`,
      quiet: true,
    },
  );
  return (
    <FormDialog
      title={calendar ? `Edit ${calendar.name}` : "Store a calendar"}
      verb="Store it"
      act={act}
      disabled={!name.trim() || (way === "file" && !file)}
      call={way === "days" ? putCall(name.trim() || "NAME", body) : importCall(name.trim() || "NAME")}
      onClose={onClose}
    >
      {!calendar && <NameField value={name} onChange={setName} placeholder="holidays" />}
      <Segments
        label="Where the days come from"
        value={way}
        options={[
          ["days", "Type the days"],
          ["file", "An .ics file"],
        ]}
        onChange={setWay}
      />
      {way === "file" ? (
        <TextField
          label="File"
          type="file"
          accept=".ics,text/calendar"
          required
          hint="The days of its events replace the stored days; at most 256 KiB."
          onChange={(event) => setFile(event.target.files?.[0] ?? null)}
        />
      ) : (
        <>
          <TextArea
            label="Days"
            rows={3}
            value={days}
            placeholder="2030-12-24"
            hint="One per line, or separated by commas."
            onChange={(event) => setDays(event.target.value)}
          />
          <TextArea
            label="Ranges"
            rows={2}
            value={ranges}
            placeholder="2030-12-24 to 2031-01-01"
            hint="One per line."
            onChange={(event) => setRanges(event.target.value)}
          />
          <TextField
            label="Days of every year"
            value={yearly}
            placeholder="12-25, 01-01"
            onChange={(event) => setYearly(event.target.value)}
          />
          <TextField
            label="Weekdays"
            value={weekdays}
            placeholder="SAT, SUN"
            onChange={(event) => setWeekdays(event.target.value)}
          />
          <TextField
            label="Description (optional)"
            value={description}
            maxLength={1000}
            onChange={(event) => setDescription(event.target.value)}
          />
        </>
      )}
      {calendar && <p className="muted">Schedules that refer to it use the new days at once.</p>}
    </FormDialog>
  );
}

function calendarPath(name: string): string {
  return `/api/calendars/${encodeURIComponent(name)}`;
}

function putCall(name: string, body: Record<string, unknown>): Call {
  const given = Object.entries(body).filter(([, value]) => (Array.isArray(value) ? value.length > 0 : value !== ""));
  return {
    title: "Store it",
    method: "PUT",
    path: calendarPath(name),
    body,
    python: `await scheduler.calendars.put(${pythonLiteral(name)}, Calendar(${given.map(([key, value]) => `${key}=${pythonLiteral(value)}`).join(", ")}))`,
  };
}

function importCall(name: string): Call {
  return {
    title: "Store it from a file",
    method: "PUT",
    path: calendarPath(name),
    file: { name: "holidays.ics", type: "text/calendar" },
    python: `await scheduler.calendars.import_ics(${pythonLiteral(name)}, Path("holidays.ics").read_text())`,
  };
}

/** Store the days of an .ics file. */
async function putFile(name: string, file: File | null): Promise<Calendar> {
  const stored = await unwrap(
    api.PUT("/api/calendars/{name}", {
      params: { path: { name } },
      body: (await file?.text()) as never,
      bodySerializer: (text) => text as unknown as string,
      headers: { "Content-Type": "text/calendar" },
    }),
  );
  return stored.data;
}

function DeleteDialog({ of: calendar, onClose }: { of: Calendar; onClose: () => void }) {
  const act = useAct(
    async () => (await unwrap(api.DELETE("/api/calendars/{name}", { params: { path: { name: calendar.name } } }))).data,
    { touches: [CALENDARS], onDone: onClose, done: () => `The calendar ${calendar.name} is deleted.`, quiet: true },
  );
  return (
    <RemoveDialog
      title={`Delete ${calendar.name}?`}
      verb="Delete the calendar"
      act={act}
      call={{
        title: "Delete it",
        method: "DELETE",
        path: calendarPath(calendar.name),
        python: `await scheduler.calendars.delete(${pythonLiteral(calendar.name)})`,
      }}
      onClose={onClose}
    >
      <p>A calendar that a schedule still refers to is not deleted; the answer names the schedules.</p>
    </RemoveDialog>
  );
}
