import { expect, test } from "vitest";
import { dateInput, fromInput, moment, spanOf } from "./spans";

const NOW = Date.parse("2026-11-30T12:00:00Z");
const iso = (at: number | null) => at && new Date(at).toISOString().slice(0, 16);
const night = (now: string, hours?: [string, string]) => {
  const { since, before } = spanOf("night", Date.parse(now), { utc: true, ...(hours && { night: hours }) });
  return [iso(since), iso(before)];
};

test("last night is the one that ends today", () => {
  expect(night("2026-11-30T12:00:00Z")).toEqual(["2026-11-29T22:00", "2026-11-30T07:00"]);
  expect(night("2026-11-30T03:00:00Z")).toEqual(["2026-11-29T22:00", "2026-11-30T07:00"]);
  expect(night("2026-11-30T23:30:00Z")).toEqual(["2026-11-29T22:00", "2026-11-30T07:00"]);
});

test("a night has other hours if they are edited", () => {
  expect(night("2026-11-30T12:00:00Z", ["00:30", "05:15"])).toEqual(["2026-11-30T00:30", "2026-11-30T05:15"]);
  expect(night("2026-11-30T12:00:00Z", ["20:00", "23:00"])).toEqual(["2026-11-29T20:00", "2026-11-29T23:00"]);
});

test("a night is local unless times are shown in UTC", () => {
  const { since, before } = spanOf("night", NOW);
  expect(new Date(since ?? 0).getHours()).toBe(22);
  expect(new Date(before ?? 0).getHours()).toBe(7);
});

test("presets end now, and today begins at midnight", () => {
  expect(spanOf("1h", NOW)).toEqual({ since: NOW - 3_600_000, before: null });
  expect(iso(spanOf("7d", NOW).since)).toBe("2026-11-23T12:00");
  expect(iso(spanOf("today", NOW, { utc: true }).since)).toBe("2026-11-30T00:00");
  expect(spanOf("", NOW)).toEqual({ since: null, before: null });
});

test.each([
  ["12h", "2026-11-30T00:00"],
  ["PT90M", "2026-11-30T10:30"],
  ["1d12h", "2026-11-29T00:00"],
  ["2026-11-29T18:00:00", "2026-11-29T18:00"],
  ["2026-11-29T18:00:00+02:00", "2026-11-29T16:00"],
  ["2026-11-29", "2026-11-29T00:00"],
])("%s is a time of the API", (text, at) => expect(iso(moment(text, NOW))).toBe(at));

test.each(["41870", "P5M", "P999999999D", "now", "", "soon", "2026-13-45"])("%s is no time", (text) =>
  expect(moment(text, NOW)).toBeNull(),
);

test("inputs of times give what they show", () => {
  for (const utc of [true, false])
    expect(fromInput(dateInput(NOW, utc), utc)).toBe("2026-11-30T12:00:00.000Z");
  expect(dateInput(null, true)).toBe("");
  expect(fromInput("", true)).toBe("");
});
