import { PageHead } from "../../app/PageHead";

export default function CalendarPage() {
  return <PageHead title="Calendar" />;
}
