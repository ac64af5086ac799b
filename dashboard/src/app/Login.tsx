// The login: an API key is exchanged for a session; the key itself is not kept by the browser.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { become, logIn } from "../api/session";
import { Button } from "../ui/Button";
import { TextField } from "../ui/Field";
import "./Login.css";

export function Login() {
  const client = useQueryClient();
  const [key, setKey] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      const session = await logIn(key.trim());
      become(client, session);
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="login">
      <form onSubmit={(event) => void submit(event)} className="stack login-form">
        <h1>Mainspring</h1>
        <TextField
          label="API key"
          type="password"
          value={key}
          required
          autoFocus
          autoComplete="current-password"
          placeholder="ms_…"
          error={error || undefined}
          hint="The session ends after some hours, when the key expires or is revoked, or when you log out."
          onChange={(event) => setKey(event.target.value)}
        />
        <Button look="primary" type="submit" busy={busy} disabled={!key.trim()}>
          Log in
        </Button>
        <div className="muted">
          <p>To create a key, run this on a machine that reaches the database:</p>
          <pre className="empty-command">mainspring keys create dashboard --role operator</pre>
        </div>
      </form>
    </main>
  );
}
