import { PageHead } from "../../app/PageHead";

export default function SettingsPage() {
  return <PageHead title="Settings and keys" />;
}
