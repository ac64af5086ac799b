import { PageHead } from "../../app/PageHead";

export default function SchedulePage() {
  return <PageHead title="Schedule" />;
}
