// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { parseExact } from "../../lib/json";
import { type Data, DataForm, useData } from "./DataForm";
import type { Schema } from "./schema";

afterEach(cleanup);

const schema: Schema = {
  type: "object",
  properties: { amount: { type: "integer" }, password: { type: "string" }, urgent: { type: "boolean" } },
  required: ["amount"],
  additionalProperties: false,
};
let data: Data;

function Form({ initial, known, refuse }: { initial: unknown; known: Schema | null; refuse?: boolean }) {
  data = useData(initial, known, refuse);
  return <DataForm data={data} schema={known} />;
}

test("what does not fit is told while one types, and large numbers keep their digits", () => {
  render(<Form initial={{ amount: 1 }} known={schema} />);
  fireEvent.change(screen.getByLabelText("amount *"), { target: { value: "many" } });
  expect(screen.getByText("amount must be a whole number.")).toBeTruthy();
  fireEvent.change(screen.getByLabelText("amount *"), { target: { value: "9007199254740993" } });
  expect(data.misfits).toEqual([]);
  expect(data.text).toContain("9007199254740993");
  fireEvent.click(screen.getByText("JSON"));
  expect((screen.getByLabelText("Data as JSON") as HTMLTextAreaElement).value).toContain("9007199254740993");
});

test("JSON that cannot be read is told, and the form waits for it", () => {
  render(<Form initial={{ amount: 1 }} known={schema} />);
  fireEvent.click(screen.getByText("JSON"));
  fireEvent.change(screen.getByLabelText("Data as JSON"), { target: { value: '{"amount": ' } });
  expect(screen.getByRole("alert").textContent).toContain("This is not JSON");
  expect(data.value).toBeNull();
});

test("a field that is emptied is taken out, and a choice is a truth", () => {
  render(<Form initial={{ amount: 1 }} known={schema} />);
  fireEvent.change(screen.getByLabelText("urgent"), { target: { value: "true" } });
  expect(data.value).toEqual({ amount: 1, urgent: true });
  fireEvent.change(screen.getByLabelText("urgent"), { target: { value: "" } });
  fireEvent.change(screen.getByLabelText("amount *"), { target: { value: "" } });
  expect(data.value).toEqual({});
  expect(screen.getByText("amount is missing.")).toBeTruthy();
});

test("a hidden value must be given again where the word for it would be stored", () => {
  render(<Form initial={{ amount: 1, password: "[redacted]" }} known={schema} refuse />);
  expect(screen.getByText("password is hidden here; enter the value again.")).toBeTruthy();
  fireEvent.change(screen.getByLabelText("password"), { target: { value: "new" } });
  expect(data.misfits).toEqual([]);
});

test("without a schema the data is JSON, digits and all", () => {
  render(<Form initial={parseExact('{"id": 12345678901234567890}')} known={null} />);
  expect((screen.getByLabelText("Data as JSON") as HTMLTextAreaElement).value).toContain("12345678901234567890");
});
