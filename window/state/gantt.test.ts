import { describe, expect, test } from "vitest";
import { type Json } from "../wire/json";
import { comparisonOf, ganttOf } from "./gantt";

const START = Date.parse("2026-11-22T10:00:00Z");
const time = (seconds: number) => new Date(START + seconds * 1000).toISOString();

/** A step from and until some seconds after the start of its run. */
const step = (state: string, from: number | null, to: number | null = null, more: Json = {}): Json => ({
  step: "erase_devices",
  interface: "deploy",
  state,
  started_at: from === null ? null : time(from),
  ended_at: to === null ? null : time(to),
  usual_seconds: null,
  ...more,
});
const usual = (p50: number, p90: number) => ({ usual_seconds: { p50, p90, samples: 9 } });
const run = (steps: Json[], ended: number | null = null): Json => ({
  started_at: time(0),
  ended_at: ended === null ? null : time(ended),
  steps,
});

describe("a run under way", () => {
  test("a lone step without a usual time does not fill the axis", () => {
    for (const elapsed of [0, 1, 9, 59, 600, 7200, 400_000]) {
      const { rows, now } = ganttOf(run([step("running", 0)]), START + elapsed * 1000);
      expect(rows[0]?.bar?.width).toBeLessThanOrEqual(81);
      expect(rows[0]?.seconds).toBe(elapsed);
      expect(now).toBeLessThanOrEqual(rows[0]?.bar?.width ?? 0);
    }
  });

  test("the usual time is marked where the step would end", () => {
    const { rows } = ganttOf(run([step("running", 0, null, usual(60, 90))]), START + 30_000);
    // An axis of 90 s: ticks of 30 s.
    expect(rows[0]).toMatchObject({ bar: { x: 0, width: 33.33 }, usual: { x: 66.67, width: 33.33 } });
    expect(rows[0]?.times).toBeNull();
  });

  test("pending steps come one after the other, until one is not known", () => {
    const steps = [
      step("running", 0, null, usual(100, 100)),
      step("pending", null, null, usual(50, 50)),
      step("pending", null, null, usual(50, 50)),
      step("pending", null),
      step("pending", null, null, usual(50, 50)),
    ];
    const { rows } = ganttOf(run(steps), START + 60_000);
    // Ticks of 60 s up to 240 s.
    expect(rows.map(({ bar }) => bar?.x)).toEqual([0, 41.67, 62.5, undefined, undefined]);
    expect(rows.map(({ seconds }) => seconds)).toEqual([60, null, null, null, null]);
  });

  test("a step that takes longer than usual says how many times", () => {
    const of = (elapsed: number, p90: number) =>
      ganttOf(run([step("waiting", 0, null, usual(p90, p90))]), START + elapsed * 1000).rows[0]?.times;
    expect(of(37 * 60, 5 * 60)).toBe(7);
    expect(of(6 * 60, 5 * 60)).toBeNull();
    // Of a step of milliseconds, ratios are noise.
    expect(of(1, 0.001)).toBeNull();
  });

  test("ticks are round, few, and exact if they are less than a minute apart", () => {
    const short = ganttOf(run([step("running", 0)]), START + 7000);
    expect(short.exact).toBe(true);
    expect(short.ticks.map(({ at }) => at - START)).toEqual([0, 5000, 10_000]);
    const long = ganttOf(run([step("running", 0)]), START + 30 * 86_400_000);
    expect(long.exact).toBe(false);
    expect(long.ticks.length).toBeLessThanOrEqual(6);
  });

  test("a clock behind that of the service breaks nothing", () => {
    const { rows, now } = ganttOf(run([step("running", 5)]), START - 60_000);
    expect(rows[0]?.seconds).toBe(0);
    expect(now).toBeGreaterThanOrEqual(0);
  });
});

describe("a run that has ended", () => {
  test("has the marks of the usual times, but no bars of what is pending", () => {
    const steps = [
      step("done", 0, 4, usual(3, 6)),
      step("failed", 4, 10, usual(60, 90)),
      step("pending", null, null, usual(20, 20)),
    ];
    const { rows, now } = ganttOf(run(steps, 10), START + 999_000);
    expect(now).toBeNull();
    expect(rows[0]).toMatchObject({ bar: { x: 0, width: 20 }, usual: { x: 15, width: 15 } });
    // Its usual time is beyond twice the time of the run.
    expect(rows[1]).toMatchObject({ bar: { x: 20, width: 30 }, usual: null });
    expect(rows[2]).toMatchObject({ bar: null, seconds: null });
  });

  test("that took no time at all has bars that can be seen", () => {
    const { rows } = ganttOf(run([step("done", 0, 0), step("failed", 0, 0)], 0), START);
    for (const { bar } of rows) expect(bar?.width).toBeGreaterThan(0);
  });

  test("without steps has no rows", () => {
    expect(ganttOf(run([], 5), START).rows).toEqual([]);
  });

  test("that kept a step from an earlier run has no bar for it", () => {
    const [row] = ganttOf(run([step("done", 0, 4, { done_in: "another run" })], 10), START).rows;
    expect(row).toMatchObject({ bar: null, seconds: null });
  });
});

test("steps are compared by their names and their turns", () => {
  const of = (name: string, seconds: number, more: Json = {}) =>
    step("done", 0, 9, { step: name, duration_seconds: seconds, ...more });
  const rows = comparisonOf(
    [
      { steps: [of("a", 1), of("b", 2), of("a", 3)] },
      { steps: [of("a", 4), of("a", 5, { state: "failed" })] },
      { steps: [] },
    ],
    ({ step: name }) => name,
  );
  expect(rows).toEqual([
    { name: "a", seconds: [1, 4, null], failed: [false, false, false] },
    { name: "b", seconds: [2, null, null], failed: [false, false, false] },
    { name: "a", seconds: [3, 5, null], failed: [false, true, false] },
  ]);
});
