import { expect, test } from "vitest";
import { BLANK, type Destination, destinationOf, destinationWords, misfitsOf, typedOf } from "./destinations";

const chat: Destination = { type: "chat", url: "https://hooks.slack.com:443/[redacted]" };
const hook: Destination = {
  type: "webhook",
  url: "https://a.example:443/[redacted]",
  headers: { "X-Team": "[redacted]", Authorization: "Bearer secret://token" },
  signWith: ["k", "l"],
};
const mail: Destination = { type: "email", to: ["a@b.c", "d@e.f"] };

test("a destination that is as it was shown is sent back as it is", () => {
  expect([chat, hook, mail].map((one) => destinationOf(typedOf(one)))).toEqual([chat, hook, mail]);
});

test("a destination is told without the usual port and the hidden part", () => {
  expect([chat, mail].map(destinationWords)).toEqual(["chat https://hooks.slack.com/…", "a@b.c, d@e.f"]);
  expect(destinationWords({ type: "webhook", url: "http://a.example:8443/x" })).toBe("webhook http://a.example:8443/x");
});

test("fields of another type are not sent", () => {
  const typed = { ...typedOf(hook), type: "chat" as const };
  expect(destinationOf(typed)).toEqual({ type: "chat", url: hook.url });
});

test("hidden values fit at the stored URL only", () => {
  expect(misfitsOf(typedOf(hook), [hook])).toEqual({});
  const elsewhere = { ...typedOf(hook), url: "https://b.example/" };
  expect(misfitsOf(elsewhere, [hook]).headers).toContain("X-Team");
  expect(misfitsOf(typedOf(chat), [hook]).url).toContain("whole URL");
});

test("what does not fit is named by its field", () => {
  expect(misfitsOf(BLANK).to).toBe("Enter at least one address.");
  expect(misfitsOf({ ...BLANK, type: "chat", url: "ftp://x" }).url).toContain("begin with");
  expect(misfitsOf({ ...BLANK, type: "webhook", url: "https://x/", headers: "no colon" }).headers).toContain(
    "no colon",
  );
  expect(misfitsOf({ ...BLANK, type: "webhook", url: "https://x/", headers: "A: b" })).toEqual({});
});
