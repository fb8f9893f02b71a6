import { expect, test } from "vitest";
import { health } from "./health";

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
