// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Outlet,
  parseSearchWith,
  RouterProvider,
  stringifySearchWith,
} from "@tanstack/react-router";
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { api } from "../../api/client";
import { SessionProvider, type Session } from "../../api/session";
import JobsPage from "./JobsPage";

// A busy machine is slow; nothing here is about time.
vi.setConfig({ testTimeout: 90_000 });
configure({ asyncUtilTimeout: 30_000 });
Element.prototype.scrollIntoView = () => undefined;
window.scrollTo = () => undefined;

const job = (id: string, more: object = {}) => ({
  id,
  name: "charge",
  queue: "mail",
  state: "failed",
  priority: 5,
  data: {},
  tags: [],
  runAt: "2026-01-01T00:00:00Z",
  createdAt: "2026-01-01T00:00:00Z",
  tries: 1,
  token: 1,
  ...more,
});
const counts = [{ state: "failed", count: 997, capped: true }];
let asked: { path: string; query: Record<string, string> }[] = [];
let jobs: object[] = [];
let client: QueryClient;

beforeEach(() => {
  asked = [];
  jobs = [job("a1"), job("b2", { error: { type: "CardDeclined", message: "no\nsecond" } })];
  vi.spyOn(api, "GET").mockImplementation(((
    path: string,
    options?: { params?: { query?: Record<string, string> } },
  ) => {
    asked.push({ path, query: options?.params?.query ?? {} });
    const answers: Record<string, unknown> = {
      "/api/jobs/search": { success: true, data: jobs, next: null, complete: true },
      "/api/jobs/counts": { success: true, data: counts },
      "/api/jobs/suggestions": { success: true, data: { names: ["charge"], queues: [], tags: [], errors: [] } },
    };
    return Promise.resolve({ data: answers[path], response: new Response() });
  }) as never);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  window.localStorage.clear();
});

function show(address: string, role: Session["role"] = "operator") {
  const root = createRootRoute({ component: Outlet });
  const plain = (search: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(search).map(([key, value]) => [key, String(value)]));
  const page = (path: string, component: () => React.ReactNode) =>
    createRoute({ getParentRoute: () => root, path, component, validateSearch: plain });
  const router = createRouter({
    routeTree: root.addChildren([page("/jobs", JobsPage), page("/jobs/$id", () => <h1>One job</h1>)]),
    history: createMemoryHistory({ initialEntries: [address] }),
    parseSearch: parseSearchWith((text) => text),
    stringifySearch: stringifySearchWith((value) => String(value)),
  });
  const session = { role, scope: {}, name: "x" } as unknown as Session;
  client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  render(
    <QueryClientProvider client={client}>
      <SessionProvider session={session}>
        <RouterProvider router={router as never} />
      </SessionProvider>
    </QueryClientProvider>,
  );
  return router;
}

const searches = () => asked.filter((one) => one.path === "/api/jobs/search");

test("the address is the filter of the request, and rows show what matters", async () => {
  show("/jobs?state=failed&data.customer.id=42");
  expect(await screen.findByText("CardDeclined: no")).toBeTruthy();
  expect(searches()[0]?.query["state"]).toBe("failed");
  expect(searches()[0]?.query["data.customer.id"]).toBe("42");
  expect(screen.getByRole("tab", { name: "failed 900+" })).toBeTruthy();
});

test("a typed filter goes into the address and into the request", async () => {
  const router = show("/jobs");
  await screen.findAllByText("charge");
  const line = screen.getByRole("combobox", { name: "Filter of jobs" });
  fireEvent.change(line, { target: { value: 'name:charge error:"card declined"' } });
  fireEvent.keyDown(line, { key: "Enter" });
  await waitFor(() => expect(searches().at(-1)?.query["error"]).toBe("card declined"));
  expect(router.state.location.search).toEqual({ name: "charge", error: "card declined" });
  fireEvent.change(line, { target: { value: "state:sleeping" } });
  fireEvent.keyDown(line, { key: "Enter" });
  expect((await screen.findByRole("alert")).textContent).toContain("There is no state sleeping");
});

test("keys move, select and open", async () => {
  const router = show("/jobs?state=failed");
  await screen.findAllByText("charge");
  fireEvent.keyDown(document.body, { key: "j" });
  await waitFor(() => expect(document.querySelector("tr[aria-current]")).toBeTruthy());
  fireEvent.keyDown(document.body, { key: "x" });
  expect(await screen.findByText("1 job selected")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Retry" })).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Run now" })).toBeNull();
  fireEvent.keyDown(document.body, { key: "Enter" });
  await waitFor(() => expect(router.state.location.pathname).toBe("/jobs/a1"));
});

test("a row that does not match any more shows its last state without the colour of that state", async () => {
  show("/jobs?state=failed");
  await screen.findAllByText("charge");
  const colours = () => [...document.querySelectorAll<HTMLElement>("td .state")].map((one) => one.style.color);
  expect(colours()).toEqual(["var(--failed)", "var(--failed)"]);
  jobs = [job("b2")];
  await client.invalidateQueries({ queryKey: ["jobs"] });
  expect(await screen.findByText(/changed since/)).toBeTruthy();
  expect(colours()).toEqual(["var(--muted)", "var(--failed)"]);
});

test("a bad document spoils its row only, and a viewer selects nothing", async () => {
  jobs = [job("a1"), job("b2", { name: { bad: true } }), job("c3", { tags: null, progress: 7, waitingFor: {} })];
  vi.spyOn(console, "error").mockImplementation(() => undefined);
  show("/jobs", "viewer");
  expect(await screen.findByText(/This part cannot be shown/)).toBeTruthy();
  expect(screen.getAllByRole("link", { name: "charge" })).toHaveLength(2);
  expect(screen.queryByRole("checkbox", { name: /Select/ })).toBeNull();
});
