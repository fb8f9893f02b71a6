import { beforeEach, expect, test } from "vitest";
import { acts, clearEnded, enter, move, summary } from "./acts";

beforeEach(() => {
  acts.value = [];
});

test("the bar says how many acts are under way, and how many have failed", () => {
  const clean = enter("Clean of a", "accepted");
  const power = enter("Power on of b", "running");
  expect(summary(acts.value)).toBe("2 running");
  move(power, { stage: "failed", text: "no answer" });
  expect(summary(acts.value)).toBe("1 running, 1 failed");
  move(clean, { stage: "done" });
  expect(summary(acts.value)).toBe("1 failed");
});

test("acts that are done are counted if there is nothing else", () => {
  enter("Hold of a", "done");
  enter("Hold of b", "undone");
  expect(summary(acts.value)).toBe("2 done");
  expect(summary([])).toBe("");
});

test("one entry moves, and keeps its place", () => {
  const first = enter("Clean of a", "accepted", { about: "/v1/nodes/a" });
  enter("Clean of b", "accepted");
  move(first, { stage: "done", undo: undefined });
  expect(acts.value.map(({ title, stage }) => [title, stage])).toEqual([
    ["Clean of b", "accepted"],
    ["Clean of a", "done"],
  ]);
  clearEnded();
  expect(acts.value.map(({ title }) => title)).toEqual(["Clean of b"]);
});

test("the oldest entries go", () => {
  for (let at = 0; at < 60; at += 1) enter(`Hold of ${at}`, "done");
  expect(acts.value).toHaveLength(50);
  expect(acts.value[0]?.title).toBe("Hold of 59");
});
