/** Time by the service's clock, and times as people read them. */
import { signal } from "@preact/signals";

let clockOffset = 0;

/** The service's time in milliseconds; it moves each second while the page is visible and the service answers. */
export const now = signal(Date.now());

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
] as const;

/** @returns at most two units: `6 h 10 min`; "" if it is not known */
export function duration(seconds: number | null): string {
  if (seconds === null) return "";
  const whole = Math.max(0, Math.round(seconds));
  for (const [at, [size, unit]] of UNITS.entries()) {
    if (whole < size) continue;
    const smaller = UNITS[at + 1];
    const rest = smaller ? Math.floor((whole % size) / smaller[0]) : 0;
    return `${Math.floor(whole / size)} ${unit}${rest && smaller ? ` ${rest} ${smaller[1]}` : ""}`;
  }
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${whole} s`;
}

/** @returns seconds since then; 0 without a time */
export function since(at: string | null | undefined): number {
  return at ? Math.max(0, (now.value - Date.parse(at)) / 1000) : 0;
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const DAY: Intl.DateTimeFormatOptions = {
  year: "numeric",
  month: "short",
  day: "numeric",
  timeZoneName: "short",
};
const formats: Map<string, Intl.DateTimeFormat> = new Map();

/** @param more beside hours and minutes */
function formatted(at: string, utc: boolean, more: Intl.DateTimeFormatOptions) {
  const date = new Date(at);
  if (isNaN(date.getTime())) return at;
  const name = JSON.stringify([utc, more]);
  const format =
    formats.get(name) ??
    new Intl.DateTimeFormat(undefined, { ...CLOCK, ...more, ...(utc && { timeZone: "UTC" }) });
  formats.set(name, format);
  return format.format(date);
}

/** Seconds, with milliseconds where the time has a fraction. */
const secondsOf = (at: string) =>
  ({
    second: "2-digit",
    ...(/\.\d/.test(at) && { fractionalSecondDigits: 3 as 3 }),
  }) as const;

/** @returns the whole time */
export const absolute = (at: string, utc: boolean): string =>
  formatted(at, utc, { ...DAY, ...secondsOf(at) });

/** After these hours, the time of a clock may be that of another day. */
const HALF_A_DAY_MS = 12 * 3600 * 1000;

/**
 * @param exact with seconds
 * @returns `11:40`, or `Sun 11:40`
 */
export const clockTime = (at: string, utc: boolean, exact?: boolean): string =>
  formatted(
    at,
    utc,
    exact ? secondsOf(at) : Date.parse(at) - now.value > HALF_A_DAY_MS ? { weekday: "short" } : {},
  );
