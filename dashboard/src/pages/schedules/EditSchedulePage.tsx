import { PageHead } from "../../app/PageHead";

export default function EditSchedulePage() {
  return <PageHead title="Edit schedule" />;
}
