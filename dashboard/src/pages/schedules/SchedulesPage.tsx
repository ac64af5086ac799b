import { PageHead } from "../../app/PageHead";

export default function SchedulesPage() {
  return <PageHead title="Schedules" />;
}
