import { expect, test } from "vitest";
import { budgetOf, outcome, pauseOf } from "./batches";
import { causes, markOf, secondsOf, slowest, usualOf, waves } from "./members";

const failed = (name: string, text: string, code = "StepFailed") => ({
  uuid: name,
  name,
  result: "failed",
  error: { code, text },
});

test("nodes stand in their waves", () => {
  const found = waves(
    [1, 2],
    [
      { uuid: "a", name: "n1", wave: 0, result: "done" },
      { uuid: "b", name: null, wave: 1, result: "pending" },
      { uuid: "c", name: "n3", wave: 7, result: "pending" },
    ],
  );
  expect(found.map(({ title, squares }) => [title, squares.map(({ name }) => name)])).toEqual([
    ["wave 1", ["n1"]],
    ["wave 2", ["b"]],
  ]);
});

test("each result has a mark, also one of a newer service", () => {
  expect(
    ["done", "refused", "starting", "pending", "skipped", "aborted", "new"].map((r) => markOf(r).word),
  ).toEqual(["done", "failed", "running", "waiting", "left out", "aborted", "unknown"]);
});

test("failures that differ in names and numbers have one cause, the most frequent first", () => {
  const found = causes([
    failed("r1", "sdb: bad sector 7"),
    failed("r2", "r2 is locked", "NodeLocked"),
    failed("r3", "r3 is locked", "NodeLocked"),
    failed("r4", "sda: read-only"),
    { uuid: "x", name: "x", result: "refused", error: null },
    { uuid: "y", name: "y", result: "done", error: { code: "StepFailed", text: "sda: read-only" } },
  ]);
  expect(found.map(({ members }) => members.map(({ name }) => name))).toEqual([
    ["r2", "r3"],
    ["r1"],
    ["r4"],
    ["x"],
  ]);
});

test("the slowest node may still run", () => {
  const [start, now] = ["2026-11-30T10:00:00Z", Date.parse("2026-11-30T10:10:00Z")];
  const ended = { uuid: "a", started_at: start, ended_at: "2026-11-30T10:02:00Z" };
  const open = { uuid: "b", started_at: "2026-11-30T10:05:00Z", ended_at: null };
  expect(secondsOf(ended, now)).toBe(120);
  expect(slowest([ended, open, { uuid: "c", started_at: null }], now)).toEqual({
    member: open,
    seconds: 300,
  });
  expect(slowest([{ uuid: "c" }], now)).toBeNull();
});

test("a run is usual only if all of its steps are known", () => {
  expect(usualOf([{ usual_seconds: { p50: 4 } }, { usual_seconds: { p50: 5 } }])).toBe(9);
  expect(usualOf([{ usual_seconds: { p50: 4 } }, { usual_seconds: null }])).toBeNull();
  expect(usualOf([])).toBeNull();
});

test("a batch that is done names its failures", () => {
  const counts = { failed: 1, refused: 1 };
  expect(outcome({ state: "done", counts })).toBe("done with 2 failed");
  expect(outcome({ state: "done", counts: { failed: 0, refused: 0 } })).toBe("done");
  expect(outcome({ state: "aborted", counts })).toBe("aborted");
  expect(outcome({ state: "done" })).toBe("done");
});

test("a pause names its reason, and nobody who is not known", () => {
  const words = ["failures", "end of a wave", "anonymous", null, "ann"].map((by) =>
    pauseOf({ paused_by: by }),
  );
  expect(words).toEqual(["after failures", "at the end of a wave", "", "", "by ann"]);
});

test("the limit of failures has its noun", () => {
  expect(budgetOf({ max_failures: 2, failures_left: 0 })).toBe("0 of 2 failures left");
  expect(budgetOf({ max_failures: 1, failures_left: 1 })).toBe("1 of 1 failure left");
  expect(budgetOf({ max_failures: 0, failures_left: 0 })).toBe("no failure allowed");
});
