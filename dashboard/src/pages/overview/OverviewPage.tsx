import { PageHead } from "../../app/PageHead";

export default function OverviewPage() {
  return <PageHead title="Overview" />;
}
