import { expect, test } from "vitest";
import { absolute, clockTime, dayOf, dayTime, duration, now, since, timeOfDay, usualTime } from "./clock";

test("durations have at most two units", () => {
  expect(duration(null)).toBe("");
  expect(duration(0)).toBe("<1 s");
  expect(duration(0.96)).toBe("<1 s");
  expect(duration(3.21)).toBe("3 s");
  expect(duration(42)).toBe("42 s");
  expect(duration(60)).toBe("1 min");
  expect(duration(59.9)).toBe("1 min");
  expect(duration(350)).toBe("5 min");
  expect(duration(350, true)).toBe("5 min 50 s");
  expect(duration(7259, true)).toBe("2 h");
  expect(duration(6 * 3600 + 600)).toBe("6 h 10 min");
  expect(duration(2 * 86400 + 3600 + 60)).toBe("2 d 1 h");
});

test("ages are those of the service's clock, and never negative", () => {
  now.value = Date.parse("2026-11-22T10:00:00Z");
  expect(since("2026-11-22T09:59:00Z")).toBe(60);
  expect(since("2026-11-22T10:05:00Z")).toBe(0);
  expect(since(null)).toBe(0);
});

test("a time of another day has its weekday", () => {
  now.value = Date.parse("2026-11-22T10:00:00Z");
  expect(clockTime("2026-11-22T11:40:00Z", true)).toBe("11:40");
  expect(dayTime("2026-11-21T00:00:00Z", true)).toMatch(/Sat.*00:00/);
  expect(clockTime("2026-11-23T11:40:00Z", true)).toMatch(/Mon.*11:40/);
});

test("what is no time is shown as it is", () => {
  expect(absolute("soon", true)).toBe("soon");
});

test("a usual time is a range, or one time if both ends read the same", () => {
  expect(usualTime(null)).toBe("");
  expect(usualTime({ p50: 0.01, p90: 0.4 })).toBe("<1 s");
  expect(usualTime({ p50: 0.5, p90: 3 })).toBe("<1 s – 3 s");
  expect(usualTime({ p50: 180, p90: 300 })).toBe("3 min – 5 min");
  expect(usualTime({ p50: 61.1, p90: 61.4 })).toBe("1 min 1 s");
  expect(usualTime({ p50: 60, p90: 90 }, " to ")).toBe("1 min to 1 min 30 s");
});

test("a time has its date only if that is not known from what is beside it", () => {
  const at = "2026-11-28T20:03:51.559Z";
  expect(timeOfDay(at, true, "2026-11-28T00:00:00Z")).toBe("20:03:51");
  expect(timeOfDay(at, true, "2026-11-29T00:00:00Z")).toBe("Nov 28, 20:03:51");
  expect(timeOfDay(at, true, "2027-11-28T00:00:00Z")).toMatch(/Nov 28, 2026.*20:03:51$/);
  expect(dayOf(at, true)).toMatch(/Sat.*Nov 28, 2026.*UTC/);
  expect(absolute(at, true)).toMatch(/Nov 28, 2026.*20:03:51\.559.*UTC/);
});
