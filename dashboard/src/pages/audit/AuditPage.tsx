import { PageHead } from "../../app/PageHead";

export default function AuditPage() {
  return <PageHead title="Audit" />;
}
