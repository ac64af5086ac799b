import { PageHead } from "../../app/PageHead";

export default function DeadLettersPage() {
  return <PageHead title="Dead letters" />;
}
