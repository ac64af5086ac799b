import { PageHead } from "../../app/PageHead";

export default function JobPage() {
  return <PageHead title="Job" />;
}
