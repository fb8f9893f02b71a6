/** Times of a history: presets, and those of an address. */

/** Presets, with their labels. */
export const TIMES: [string, string][] = [
  ["", "newest"],
  ["1h", "last hour"],
  ["today", "today"],
  ["night", "last night"],
  ["7d", "last 7 days"],
  ["own", "own times"],
];

export const NIGHT: [string, string] = ["22:00", "07:00"];

/** Milliseconds; null: no limit. */
export interface Span {
  since: number | null;
  before: number | null;
}

const HOUR_MS = 3_600_000;

/** The time of a clock, so many days after today. */
function clockAt(now: number, days: number, clock: string, utc: boolean): number {
  const [hour = 0, minute = 0] = clock.split(":").map(Number);
  const date = new Date(now);
  if (utc) return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + days, hour, minute);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days, hour, minute).getTime();
}

/**
 * @param preset one of `TIMES`
 * @param utc times are shown in UTC, else in the local zone
 * @param night its begin and its end: the last night is the one that ends today, or ended yesterday
 *   if it has not begun
 */
export function spanOf(
  preset: string,
  now: number,
  { utc = false, night = NIGHT }: { utc?: boolean; night?: [string, string] } = {},
): Span {
  if (preset === "1h") return { since: now - HOUR_MS, before: null };
  if (preset === "7d") return { since: now - 7 * 24 * HOUR_MS, before: null };
  if (preset === "today") return { since: clockAt(now, 0, "00:00", utc), before: null };
  if (preset !== "night") return { since: null, before: null };
  const [from, to] = night;
  const nights = [0, -1].map((day) => {
    const before = clockAt(now, day, to, utc);
    const sameDay = clockAt(now, day, from, utc);
    return { since: sameDay < before ? sameDay : clockAt(now, day - 1, from, utc), before };
  });
  return nights.find(({ since }) => since <= now) ?? { since: null, before: null };
}

// In P5M, M means months.
const DURATION = /^(?!P[^T]*[HMS])P?(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?$/i;
const WITH_ZONE = /(?:Z|[+-]\d\d:?\d\d)$/i;

/** A date can say no time before it. */
const FIRST = Date.UTC(1970, 0);

/**
 * @param text `since` or `before` of the API: a time, UTC without a zone, or a duration before now
 * @returns milliseconds; null for anything else, such as a cursor
 */
export function moment(text: string, now: number): number | null {
  const parts = DURATION.exec(text)?.slice(1);
  if (parts?.some(Boolean)) {
    const [days = 0, hours = 0, minutes = 0, seconds = 0] = parts.map((part) => Number(part ?? 0));
    const at = now - ((days * 24 + hours) * HOUR_MS + minutes * 60_000 + seconds * 1000);
    return at < FIRST ? null : at;
  }
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return null;
  const at = Date.parse(/T| /.test(text) && !WITH_ZONE.test(text) ? `${text}Z` : text);
  return isNaN(at) ? null : at;
}

/** @returns the value of an input of a date and a time */
export function dateInput(at: number | null, utc: boolean): string {
  if (at === null) return "";
  const shift = utc ? 0 : new Date(at).getTimezoneOffset() * 60_000;
  return new Date(at - shift).toISOString().slice(0, 16);
}

/** @returns its time as the API takes it; "" for an empty input */
export function fromInput(text: string, utc: boolean): string {
  const at = Date.parse(utc ? `${text}Z` : text);
  return isNaN(at) ? "" : new Date(at).toISOString();
}
