import { describe, expect, it } from "vitest";
import { callsOf, partOf, readView, spanOf } from "./view";

describe("the address of the overview", () => {
  it("shows an hour unless it says otherwise", () => {
    expect(readView({}).range).toBe("1h");
    expect(readView({ range: "7d" }).range).toBe("7d");
    expect(readView({ range: "<script>" }).range).toBe("1h");
  });

  it("has a part only where both ends are instants in their order", () => {
    const from = "2030-01-01T10:00:00.000Z";
    const to = "2030-01-01T11:00:00.000Z";
    expect(readView({ from, to }).part).toEqual({ start: from, end: to });
    expect(readView({ from: to, to: from }).part).toBeNull();
    expect(readView({ from }).part).toBeNull();
    expect(readView({ from: "soon", to, zoom: "1" })).toMatchObject({ part: null, zoomed: false });
    expect(readView({ from, to, zoom: "1" }).zoomed).toBe(true);
  });

  it("keeps a dragged part as whole minutes, one at least", () => {
    const at = Date.parse("2030-01-01T10:00:20Z") / 1000;
    expect(partOf(at, at + 10)).toEqual({ from: "2030-01-01T10:00:00.000Z", to: "2030-01-01T10:01:00.000Z" });
    expect(partOf(at, at + 90).to).toBe("2030-01-01T10:02:00.000Z");
  });

  it("ends now", () => {
    expect(spanOf("15m", Date.parse("2030-01-01T10:00:00Z"))).toEqual({
      start: "2030-01-01T09:45:00.000Z",
      end: "2030-01-01T10:00:00.000Z",
    });
  });

  it("has the calls of the time and the queue that it shows", () => {
    const [from, to] = ["2030-01-01T10:00:00.000Z", "2030-01-01T11:00:00.000Z"];
    const view = readView({ from, to, queue: "a b", zoom: "1" });
    const [, charts, failing] = callsOf(view, Date.parse(to), false);
    expect(charts?.path).toBe(`/api/stats?${new URLSearchParams({ start: from, end: to, queue: "a b" }).toString()}`);
    expect(failing?.python).toContain('    order="failing",\n    queue="a b",\n)');
    expect(callsOf(view, 0, true)).toHaveLength(6);
  });
});
