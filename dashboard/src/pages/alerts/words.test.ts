import { expect, test } from "vitest";
import { type Destination, destinationsOf, destinationWords, statusWords } from "./words";

const chat: Destination = { type: "chat", url: "https://hooks.slack.com:443/[redacted]" };

test("a destination that is as it was shown is sent back as it is", () => {
  const hook: Destination = { type: "webhook", url: "https://a.example:443/[redacted]", signWith: ["k"] };
  const text = [chat, hook].map(destinationWords).join("\n");
  expect(destinationsOf(text, [chat, hook])).toEqual([chat, hook]);
});

test("a line is a chat, a webhook or addresses", () => {
  expect(destinationsOf("chat https://x/secret://y\n webhook https://z/ \na@b.c, d@e.f\n")).toEqual([
    { type: "chat", url: "https://x/secret://y" },
    { type: "webhook", url: "https://z/" },
    { type: "email", to: ["a@b.c", "d@e.f"] },
  ]);
});

test("the status names what holds messages back", () => {
  expect(statusWords({ enabled: true, status: "firing", silence: null })).toBe("firing");
  expect(statusWords({ enabled: false, status: "ok", silence: null })).toBe("disabled");
  const silence = { until: "2030-01-01T00:00:00Z", reason: "", actor: null, at: "2030-01-01T00:00:00Z" };
  expect(statusWords({ enabled: true, status: "firing", silence })).toBe("firing, silenced");
});
