import { type ReactNode, useEffect } from "react";

/** The heading of a page, its title in the browser, and its actions, always at the same place. */
export function PageHead({ title, name, children }: { title: ReactNode; name?: string; children?: ReactNode }) {
  const words = name ?? (typeof title === "string" ? title : "Mainspring");
  useEffect(() => {
    document.title = `${words} · Mainspring`;
  }, [words]);
  return (
    <div className="page-head">
      <h1>{title}</h1>
      {children && <div className="row">{children}</div>}
    </div>
  );
}
