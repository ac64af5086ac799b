import { PageHead } from "../../app/PageHead";

export default function OperationsPage() {
  return <PageHead title="Operations" />;
}
