// An address without a page: what was asked for, and the pages that there are.
import { Link, useRouterState } from "@tanstack/react-router";
import { PageHead } from "./PageHead";
import { usePages } from "./Shell";

export function NotFound() {
  const pages = usePages();
  const path = useRouterState({ select: (state) => state.location.pathname });
  return (
    <>
      <PageHead title="There is no such page" />
      <div className="stack">
        <p className="wrap">
          Nothing is at <code>{path}</code>. The address may be mistyped, or be one of another version.
        </p>
        <ul aria-label="Pages that there are">
          {pages.map((page) => (
            <li key={page.path}>
              <Link to={page.path}>{page.title}</Link>
            </li>
          ))}
        </ul>
      </div>
    </>
  );
}
