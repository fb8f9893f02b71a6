/** Time by the service's clock, and times as people read them. */
import { computed, signal } from "@preact/signals";

let clockOffset = 0;

/** The service's time in milliseconds; it moves each second while the page is visible and the service answers. */
export const now = signal(Date.now());

/** The same in whole minutes, for what need not be drawn each second. */
export const minute = computed(() => Math.floor(now.value / 60_000));

/** @param date the header Date of an answer */
export function setClock(date: string | null) {
  const at = date ? Date.parse(date) : NaN;
  // The header has whole seconds, so a smaller difference is no difference of clocks.
  if (!isNaN(at) && Math.abs(at - Date.now() - clockOffset) > 1500) clockOffset = at - Date.now();
}

/** @returns the service's time, as documents write it */
export const timeNow = () => new Date(Date.now() + clockOffset).toISOString().replace(/\.\d+/, "");

/** Ages do not go on while what they are of is not read. */
let stands = false;
export const stand = (still: boolean) => (stands = still);

setInterval(() => {
  if (!document.hidden && !stands) now.value = Date.now() + clockOffset;
}, 1000);

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
] as const;

/**
 * @param exact with seconds beside minutes; ages would move too often by them
 * @returns at most two units: `6 h 10 min`; `<1 s` if it is less; "" if it is not known
 */
export function duration(seconds: number | null, exact: boolean = false): string {
  if (seconds === null) return "";
  if (seconds < 1) return "<1 s";
  const whole = Math.round(seconds);
  for (const [at, [size, unit]] of UNITS.entries()) {
    if (whole < size) continue;
    const smaller = UNITS[at + 1];
    const rest = smaller && (exact || unit !== "min") ? Math.floor((whole % size) / smaller[0]) : 0;
    return `${Math.floor(whole / size)} ${unit}${rest && smaller ? ` ${rest} ${smaller[1]}` : ""}`;
  }
  return "";
}

/**
 * @param times median and 90th percentile
 * @param between the words between both
 * @returns both, or one if they read the same; "" if they are not known
 */
export function usualTime(times: { p50: number; p90: number } | null, between: string = " – "): string {
  if (!times) return "";
  return [...new Set([duration(times.p50, true), duration(times.p90, true)])].join(between);
}

/** @returns seconds since then; 0 without a time */
export function since(at: string | null | undefined): number {
  return at ? Math.max(0, (now.value - Date.parse(at)) / 1000) : 0;
}

type Format = Intl.DateTimeFormatOptions;

const CLOCK: Format = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const SECONDS: Format = { ...CLOCK, second: "2-digit" };
const DATE: Format = { month: "short", day: "numeric" };
const DAY: Format = { ...DATE, year: "numeric", timeZoneName: "short" };
const formats: Map<string, Intl.DateTimeFormat> = new Map();

function formatted(at: string, utc: boolean, form: Format) {
  const date = new Date(at);
  if (isNaN(date.getTime())) return at;
  const name = JSON.stringify([utc, form]);
  const format =
    formats.get(name) ?? new Intl.DateTimeFormat(undefined, { ...form, ...(utc && { timeZone: "UTC" }) });
  formats.set(name, format);
  return format.format(date);
}

/** @returns the whole time, with milliseconds where it has a fraction */
export const absolute = (at: string, utc: boolean): string =>
  formatted(at, utc, { ...SECONDS, ...DAY, ...(/\.\d/.test(at) && { fractionalSecondDigits: 3 as 3 }) });

/** @returns the day without its year: `Nov 28` */
export const dateOf = (at: string, utc: boolean): string => formatted(at, utc, DATE);

/** @returns the day with its zone, as a heading of times: `Sat, Nov 28, 2026, GMT+9` */
export const dayOf = (at: string, utc: boolean): string => formatted(at, utc, { ...DAY, weekday: "short" });

/**
 * @param beside a time whose day the reader knows
 * @returns `20:03:51`, with its date if that is of another day, and its year if that is of another year
 */
export function timeOfDay(at: string, utc: boolean, beside: string): string {
  if (dayOf(at, utc) === dayOf(beside, utc)) return formatted(at, utc, SECONDS);
  const year = new Date(at).getFullYear() === new Date(beside).getFullYear() ? {} : { year: DAY.year };
  return formatted(at, utc, { ...SECONDS, ...DATE, ...year } as Format);
}

/** @returns `Sun 11:40` */
export const dayTime = (at: string, utc: boolean): string =>
  formatted(at, utc, { ...CLOCK, weekday: "short" });

/** After these hours, the time of a clock may be that of another day. */
const HALF_A_DAY_MS = 12 * 3600 * 1000;

/**
 * @param exact with seconds
 * @returns `11:40`, or `Sun 11:40`
 */
export const clockTime = (at: string, utc: boolean, exact?: boolean): string =>
  !exact && Date.parse(at) - now.value > HALF_A_DAY_MS
    ? dayTime(at, utc)
    : formatted(at, utc, exact ? SECONDS : CLOCK);
