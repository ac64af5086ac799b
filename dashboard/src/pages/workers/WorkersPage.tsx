import { PageHead } from "../../app/PageHead";

export default function WorkersPage() {
  return <PageHead title="Workers" />;
}
