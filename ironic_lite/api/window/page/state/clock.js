/** Time by the service's clock, and times as people read them. */
import { signal } from "../vendor/signals.js";

let offset = 0;

/** The service's time in milliseconds; it moves each second while the page is visible. */
export const now = signal(Date.now());

/** @param {string | null} date the header Date of an answer */
export function heard(date) {
  const at = date ? Date.parse(date) : NaN;
  // The header has whole seconds, so a smaller difference is no difference of clocks.
  if (!Number.isNaN(at) && Math.abs(at - Date.now() - offset) > 1500) offset = at - Date.now();
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() + offset;
}, 1000);

const UNITS = /** @type {const} */ ([
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
]);

/** @param {number} seconds @returns {string} at most two units: `6 h 10 min` */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  for (const [at, [size, unit]] of UNITS.entries()) {
    if (whole < size) continue;
    const smaller = UNITS[at + 1];
    const rest = smaller ? Math.floor((whole % size) / smaller[0]) : 0;
    return `${Math.floor(whole / size)} ${unit}${rest && smaller ? ` ${rest} ${smaller[1]}` : ""}`;
  }
  return `${whole} s`;
}

/** @param {string | null | undefined} at @returns {number} seconds since then; 0 without a time */
export function since(at) {
  return at ? Math.max(0, (now.value - Date.parse(at)) / 1000) : 0;
}

const stamp = /** @param {boolean} utc */ (utc) =>
  new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium",
    timeStyle: "medium",
    ...(utc ? { timeZone: "UTC" } : {}),
  });
const formats = { local: stamp(false), utc: stamp(true) };

/** @param {string} at @param {boolean} utc @returns {string} the whole time */
export function absolute(at, utc) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  return formats[utc ? "utc" : "local"].format(date) + (utc ? " UTC" : "");
}

/** @param {string} at @param {boolean} utc @returns {string} hours and minutes: `11:40` */
export function clockTime(at, utc) {
  const format = { hour: /** @type {const} */ ("2-digit"), minute: /** @type {const} */ ("2-digit") };
  return new Date(at).toLocaleTimeString(undefined, utc ? { ...format, timeZone: "UTC" } : format);
}
