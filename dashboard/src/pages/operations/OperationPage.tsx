import { PageHead } from "../../app/PageHead";

export default function OperationPage() {
  return <PageHead title="Operation" />;
}
