import { Link } from "@tanstack/react-router";
import { TextField } from "../../ui/Field";
import { useCalendars } from "../settings/queries";

type Text = { value: string; error?: string; onChange: (event: { target: { value: string } }) => void };
const SHOWN = 5;

/** The calendars whose days a schedule leaves out, by their names; those that are stored are offered. */
export function CalendarsField(text: Text) {
  const names = (useCalendars().data ?? []).map((one) => one.name);
  const stored = `${names.slice(0, SHOWN).join(", ")}${names.length > SHOWN ? " …" : ""}`;
  return (
    <TextField
      {...text}
      label="Except on the days of these calendars"
      placeholder={names.length > 0 ? "none" : "holidays"}
      options={names}
      hint={
        <>
          {names.length > 0 ? `Stored: ${stored}.` : "None is stored yet."}{" "}
          <Link to="/schedules/-/calendars">Open the calendars</Link>
        </>
      }
    />
  );
}
