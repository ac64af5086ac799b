import { PageHead } from "../../app/PageHead";

export default function NewJobPage() {
  return <PageHead title="New job" />;
}
