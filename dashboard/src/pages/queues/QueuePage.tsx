import { PageHead } from "../../app/PageHead";

export default function QueuePage() {
  return <PageHead title="Queue" />;
}
