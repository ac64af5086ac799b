// The routes. Each page is a chunk of its own; filters are search parameters, so that an address is a view.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  parseSearchWith,
  stringifySearchWith,
} from "@tanstack/react-router";
import { prefix } from "../api/client";
import { ErrorPanel } from "../ui/Panel";
import { NotFound } from "./NotFound";
import { Shell } from "./Shell";

export type Search = Record<string, string | undefined>;

/** Search parameters are plain text: what is typed into the address is what the page gets. */
function readSearch(search: Record<string, unknown>): Search {
  const read: Search = {};
  for (const [key, value] of Object.entries(search)) {
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") read[key] = String(value);
  }
  return read;
}

const root = createRootRoute({
  component: Shell,
  errorComponent: ({ error }) => <ErrorPanel error={error} />,
  notFoundComponent: NotFound,
});

function page<Path extends string>(path: Path, load: () => Promise<{ default: React.ComponentType }>) {
  return createRoute({
    getParentRoute: () => root,
    path,
    validateSearch: readSearch,
    component: lazyRouteComponent(load),
  });
}

const routes = [
  page("/", () => import("../pages/overview/OverviewPage")),
  page("/jobs", () => import("../pages/jobs/JobsPage")),
  page("/jobs/new", () => import("../pages/job/NewJobPage")),
  page("/jobs/$id", () => import("../pages/job/JobPage")),
  page("/flows", () => import("../pages/flows/FlowsPage")),
  page("/flows/$id", () => import("../pages/flows/FlowPage")),
  page("/operations", () => import("../pages/operations/OperationsPage")),
  page("/operations/$id", () => import("../pages/operations/OperationPage")),
  page("/schedules", () => import("../pages/schedules/SchedulesPage")),
  // Under "-", as an id may be any text: /schedules/new is the schedule with the id "new".
  page("/schedules/-/new", () => import("../pages/schedules/EditSchedulePage")),
  page("/schedules/-/calendar", () => import("../pages/schedules/CalendarPage")),
  page("/schedules/-/calendars", () => import("../pages/calendars/CalendarsPage")),
  page("/schedules/$id", () => import("../pages/schedules/SchedulePage")),
  page("/schedules/$id/edit", () => import("../pages/schedules/EditSchedulePage")),
  page("/queues", () => import("../pages/queues/QueuesPage")),
  page("/queues/$queue", () => import("../pages/queues/QueuePage")),
  page("/dead-letters", () => import("../pages/dead-letters/DeadLettersPage")),
  page("/workers", () => import("../pages/workers/WorkersPage")),
  page("/alerts", () => import("../pages/alerts/AlertsPage")),
  page("/audit", () => import("../pages/audit/AuditPage")),
  page("/settings", () => import("../pages/settings/SettingsPage")),
];

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: prefix || "/",
  defaultPreload: "intent",
  scrollRestoration: true,
  parseSearch: parseSearchWith((text) => text),
  stringifySearch: stringifySearchWith((value) => String(value)),
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
