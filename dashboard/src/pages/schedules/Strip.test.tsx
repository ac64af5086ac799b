// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Firing } from "./health";
import { Strip } from "./Strip";

afterEach(cleanup);

function firing(change: Partial<Firing>): Firing {
  const usual = { at: "2030-01-01T00:00:00Z", outcome: "skipped", reason: "paused", lateByMs: null, actor: null };
  return { ...usual, jobId: null, jobState: null, ...change };
}

function draw(firings: Firing[] | undefined) {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <Strip firings={firings} zone="Asia/Tokyo" />
    </QueryClientProvider>,
  );
}

test("a click on a mark says why, in the schedule's zone too", () => {
  draw([firing({}), firing({ at: "2030-01-01T01:00:00Z", reason: "by hand: <b>why</b>", actor: "key:1" })]);
  const marks = screen.getAllByRole("button");
  expect(marks.map((one) => one.tabIndex)).toEqual([-1, 0]);
  fireEvent.click(marks[1] as HTMLElement);
  expect(screen.getByText("Skipped: by hand: <b>why</b>. By key:1.")).toBeTruthy();
  expect(screen.getByText(/10:00:00 Asia\/Tokyo/)).toBeTruthy();
});

test("a strip that is not read yet has its place, and one without firings a word", () => {
  draw(undefined);
  expect(screen.getByRole("status")).toBeTruthy();
  cleanup();
  draw([]);
  expect(screen.getByText("not yet")).toBeTruthy();
});
