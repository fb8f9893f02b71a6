import { expect, test } from "vitest";
import { health, healthNamed, healthNeed } from "./health";

test("each health has a word and a tone", () => {
  expect(["OK", "Warning", "Critical"].map((value) => health(value).tone)).toEqual([
    "stable",
    "wait",
    "fail",
  ]);
});

test("what the service does not know is no health", () => {
  for (const value of [null, undefined, "", "constructor"])
    expect(health(value)).toEqual({ label: "unknown", tone: "" });
});

test("the worst health needs somebody first", () => {
  const values = [null, "OK", "Critical", "x", "Warning"];
  expect(values.sort((a, b) => healthNeed(a) - healthNeed(b))).toEqual([
    "Critical",
    "Warning",
    "OK",
    null,
    "x",
  ]);
});

test("a health is named in any case", () => {
  expect(["critical", "OK", "ok", "WARNING", "bad"].map(healthNamed)).toEqual([
    "Critical",
    "OK",
    "OK",
    "Warning",
    "bad",
  ]);
});
