// Panels: a heading, a body, and an error boundary, so that a bad value spoils one panel and never the page.
import { Component, type ReactNode } from "react";
import { Problem } from "../api/client";
import { Button } from "./Button";
import "./Panel.css";

type Props = { title?: ReactNode; actions?: ReactNode; children: ReactNode; flush?: boolean; id?: string };

export function Panel({ title, actions, children, flush, id }: Props) {
  return (
    <section className="panel" id={id}>
      {(title || actions) && (
        <header className="panel-head">
          {title && <h2>{title}</h2>}
          {actions && <div className="row">{actions}</div>}
        </header>
      )}
      <div className={flush ? "panel-flush" : "panel-body"}>
        <Boundary>{children}</Boundary>
      </div>
    </section>
  );
}

/** Catches what breaks while a part is drawn; the rest of the page stays. */
export class Boundary extends Component<{ children: ReactNode; row?: number }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    if (isOfAnotherBuild(error)) return <LoadAgain />;
    const text = `This part cannot be shown: ${error.message.slice(0, 200)}`;
    if (this.props.row)
      return (
        <tr>
          <td colSpan={this.props.row} className="field-error">
            {text}
          </td>
        </tr>
      );
    return <p className="field-error">{text}</p>;
  }
}

/** Whether a page's file could not be loaded. Each browser has words of its own for it. */
export function isOfAnotherBuild(error: unknown): boolean {
  const text = error instanceof Error ? error.message : "";
  return /dynamically imported module|Importing a module script failed|Unable to preload/i.test(text);
}

/** A page's file is gone: its name changes with every version of the service. */
function LoadAgain() {
  return (
    <div className="error-panel" role="alert">
      <h2>The page cannot be loaded</h2>
      <p>The service was updated while this page was open, or it does not answer at present.</p>
      <Button look="primary" onClick={() => window.location.reload()}>
        Load it again
      </Button>
    </div>
  );
}

/** An error of a query: what happened, and what to do. */
export function ErrorPanel({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const problem = error instanceof Problem ? error : null;
  const heading = !problem
    ? "This page is broken"
    : problem.status === 0
      ? "No answer"
      : problem.status === 403
        ? "Not allowed"
        : problem.status === 404
          ? "Not found"
          : `The service answered ${problem.status}`;
  return (
    <div className="error-panel" role="alert">
      <h2>{heading}</h2>
      <p className="wrap">{error instanceof Error ? error.message : String(error)}</p>
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** A place with nothing in it yet: what would be here, and the command that fills it. */
export function Empty({ title, children, command }: { title: string; children?: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <h3>{title}</h3>
      {children && <div className="muted sentence">{children}</div>}
      {command && <pre className="empty-command">{command}</pre>}
    </div>
  );
}

/** Grey lines of the size of what will be there. */
export function Skeleton({ rows = 5 }: { rows?: number }) {
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="skeleton-row" />
      ))}
    </div>
  );
}

type Query<T> = { data: T | undefined; error: unknown; isPending: boolean; refetch: () => unknown };

/** What a query has: its data, a skeleton before, an error with a way to try again. Old data stays while it fails. */
export function Loaded<T>({
  query,
  rows,
  children,
}: {
  query: Query<T>;
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined)
    return (
      <>
        {query.error ? (
          <p className="stale" role="status">
            This is older than it looks:{" "}
            {query.error instanceof Error ? query.error.message : "it cannot be read again"}
          </p>
        ) : null}
        {children(query.data)}
      </>
    );
  if (query.error) return <ErrorPanel error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton rows={rows} />;
}
