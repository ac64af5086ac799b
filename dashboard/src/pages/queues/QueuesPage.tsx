import { PageHead } from "../../app/PageHead";

export default function QueuesPage() {
  return <PageHead title="Queues and limits" />;
}
