import { PageHead } from "../../app/PageHead";

export default function JobsPage() {
  return <PageHead title="Jobs" />;
}
