import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, expect, it, vi } from "vitest";
import { readAgain } from "./readAgain";

const KEY = ["job", "a"];
let answers: ((state: string) => void)[];
let client: QueryClient;
let stop: () => void;

function watched(): () => unknown {
  answers = [];
  client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const queryFn = () => new Promise<string>((resolve) => answers.push(resolve));
  stop = new QueryObserver(client, { queryKey: KEY, queryFn }).subscribe(() => undefined);
  return () => client.getQueryData(KEY);
}

afterEach(() => stop());

it("reads a query once more that was being read when something changed, and not more often", async () => {
  const shown = watched();
  readAgain(client, [["job"]]);
  readAgain(client, [["job"], KEY]);
  expect(answers).toHaveLength(1);
  answers[0]?.("running");
  await vi.waitFor(() => expect(answers).toHaveLength(2));
  answers[1]?.("completed");
  await vi.waitFor(() => expect(shown()).toBe("completed"));
  expect(answers).toHaveLength(2);
});

it("reads a query at once that is not being read, and none that other keys name", async () => {
  const shown = watched();
  answers[0]?.("running");
  await vi.waitFor(() => expect(shown()).toBe("running"));
  readAgain(client, [["flow"]]);
  expect(answers).toHaveLength(1);
  readAgain(client, [KEY]);
  expect(answers).toHaveLength(2);
});

it("forgets a query that is removed while it is being read", async () => {
  watched();
  readAgain(client, [KEY]);
  stop();
  client.removeQueries({ queryKey: KEY });
  answers[0]?.("running");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(answers).toHaveLength(1);
});
