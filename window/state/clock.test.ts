import { expect, test } from "vitest";
import { absolute, clockTime, duration, now, since } from "./clock";

test("durations have at most two units", () => {
  expect(duration(null)).toBe("");
  expect(duration(3.21)).toBe("3.2 s");
  expect(duration(42)).toBe("42 s");
  expect(duration(60)).toBe("1 min");
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
  expect(clockTime("2026-11-23T11:40:00Z", true)).toMatch(/Mon.*11:40/);
});

test("what is no time is shown as it is", () => {
  expect(absolute("soon", true)).toBe("soon");
});
