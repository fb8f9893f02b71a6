import { expect, test } from "vitest";
import { batchTitle, expected, many, optionsIn, stopOf, verb, verbChoice, visible, wording } from "./words";
import { now } from "../state/clock";
import { fleet } from "../state/nodes";
import { prefs } from "../state/settings";

test("hidden characters are shown, and ANSI sequences are left out", () => {
  expect(visible("\u001b[31mred\u001b[0m")).toBe("red");
  expect(visible("abc\u202edef")).toBe("abc‹U+202E›def");
  expect(visible(null)).toBe("");
  expect(visible({ a: 1 })).toBe('{"a":1}');
  expect(visible("x".repeat(5000))).toHaveLength(4098);
});

test("sentences of the API have names of nodes and acts of the window", () => {
  const uuid = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123";
  expect(wording(`Node ${uuid} is away.`, { uuid, name: "rack1" })).toBe("Node rack1 is away.");
  fleet.nodes.set(uuid, { uuid, name: "rack2" });
  expect(wording(`Node ${uuid} is away.`)).toBe("Node rack2 is away.");
  expect(wording("End it with DELETE /v1/nodes/x/maintenance.")).toBe('End it by "End maintenance".');
});

test("options are kept for a tooltip, and an old result of a batch is no news", () => {
  const says = "The wait fails at noon ([conductor]clean_callback_timeout).";
  expect(wording(says)).toBe("The wait fails at noon.");
  expect(optionsIn(says)).toBe("[conductor]clean_callback_timeout");
  expect(optionsIn("All is well.")).toBeUndefined();
  const batch = (result: string, state: string) =>
    wording(
      `It is clean. Its result in the batch 2f4c7a0e-6b1d-4a53-9a35-5d6f0f0f7d55 (dozen) is ${result}; the batch is ${state}.`,
    );
  expect(batch("done", "done")).toBe("It is clean.");
  expect(batch("failed", "paused by ann")).toBe(
    "It is clean. Its result in the batch dozen is failed; the batch is paused by ann.",
  );
});

test("verbs and numbers have their words", () => {
  expect(verb("active")).toBe("Deploy");
  expect(verb("provide")).toBe("Provide");
  expect(verbChoice("provide")).toBe("Provide (clean, then available)");
  expect(verbChoice("manage")).toBe("Manage");
  expect(many(1)).toBe("1 node");
  expect(many(2, "step")).toBe("2 steps");
  expect(batchTitle({ waves: [1, 3], request: { target: "clean" } })).toBe("Clean · 4 nodes");
});

test("a stop names the step after which it ends the run", () => {
  expect(stopOf()).toBe("");
  expect(stopOf({ stop: { progress: "asked", how: "hold", after: 2 }, place: { ordinal: 1 } })).toBe(
    "stops after step 3",
  );
});

test("an expected end becomes the latest one, then late", () => {
  prefs.value = { ...prefs.value, utc: true };
  const eta = { ends_at: "2026-11-22T10:10:00Z", late_at: "2026-11-22T10:20:00Z" };
  now.value = Date.parse("2026-11-22T10:00:00Z");
  expect(expected(eta)).toBe("~10:10, at the latest 10:20");
  now.value = Date.parse("2026-11-22T10:15:00Z");
  expect(expected(eta)).toBe("at the latest 10:20");
  now.value = Date.parse("2026-11-22T10:22:00Z");
  expect(expected(eta)).toBe("late by 2 min");
});
