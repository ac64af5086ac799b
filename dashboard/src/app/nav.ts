// The pages in the navigation, in their order, with the key that opens each after "g".
export type Page = { path: string; title: string; key: string; role?: "operator" | "admin"; everything?: boolean };

export const PAGES: readonly Page[] = [
  { path: "/", title: "Overview", key: "o" },
  { path: "/jobs", title: "Jobs", key: "j" },
  { path: "/flows", title: "Flows", key: "f" },
  { path: "/schedules", title: "Schedules", key: "s" },
  { path: "/queues", title: "Queues and limits", key: "q" },
  { path: "/dead-letters", title: "Dead letters", key: "d" },
  { path: "/workers", title: "Workers", key: "w", everything: true },
  { path: "/alerts", title: "Alerts", key: "l" },
  { path: "/operations", title: "Operations", key: "p" },
  { path: "/audit", title: "Audit", key: "a", role: "admin", everything: true },
  { path: "/settings", title: "Settings and keys", key: "k", role: "admin" },
];
