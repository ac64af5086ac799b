// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { FilterBar } from "./FilterBar";

afterEach(cleanup);

test("the caret stands behind a completion before the next key", () => {
  const known = { names: [], queues: [], tags: [], errors: [] };
  render(<FilterBar filter={{ data: {} }} problems={[]} known={known} onChange={() => undefined} inputId="filter" />);
  const line = screen.getByRole<HTMLInputElement>("combobox");
  fireEvent.focus(line);
  fireEvent.change(line, { target: { value: "na state:failed", selectionStart: 2, selectionEnd: 2 } });
  line.setSelectionRange(2, 2);
  fireEvent.select(line);
  fireEvent.keyDown(line, { key: "ArrowDown" });
  fireEvent.keyDown(line, { key: "Enter" });
  expect(line.value).toBe("name: state:failed");
  expect([line.selectionStart, line.selectionEnd]).toEqual([5, 5]);
});
