/** What the page shows, and how: its address, the settings of this browser, times. */
import { effect, signal } from "../vendor/signals.js";

/**
 * @typedef {object} Route
 * @property {string} path begins with `/v1`
 * @property {string[]} parts the path after `/v1`, decoded
 * @property {URLSearchParams} query arguments of the API
 * @property {Record<string, string>} view arguments of the view, without `~`
 */

const HOME = "/v1/nodes";

/** @param {string} fragment @returns {Route} */
function readFragment(fragment) {
  // Any other fragment is the first page.
  const [path = "", search = ""] = (/^#(\/v1\/.*)/s.exec(fragment)?.[1] ?? HOME).split(/\?(.*)/s);
  const query = new URLSearchParams();
  /** @type {Record<string, string>} */
  const view = history.state ? { sel: history.state } : {};
  for (const [name, value] of new URLSearchParams(search)) {
    if (name.startsWith("~")) view[name.slice(1)] = value;
    else query.append(name, value);
  }
  const parts = path.split("/").slice(2).filter(Boolean).map(decoded);
  return { path, parts, query, view };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(readFragment(location.hash));
addEventListener("popstate", () => (route.value = readFragment(location.hash)));

/** A longer argument of the view, such as more than 150 selected nodes, is not put into an address. */
const LONGEST_ARGUMENT = 5550;

/** @param {string[]} parts @returns {string} `/v1/...` with each part encoded */
export function path(...parts) {
  return ["/v1", ...parts.map(encodeURIComponent)].join("/");
}

/**
 * @param {string} target a path
 * @param {URLSearchParams | Record<string, string>} [query]
 * @param {Record<string, string>} [view]
 * @returns {string} a fragment
 */
export function href(target, query = {}, view = {}) {
  const all = new URLSearchParams(query);
  for (const [name, value] of Object.entries(view)) {
    if (value && value.length < LONGEST_ARGUMENT) all.append(`~${name}`, value);
  }
  const text = all.toString().replaceAll("%7E", "~");
  return `#${target}${text ? `?${text}` : ""}`;
}

/** @param {Record<string, string>} [defaults] arguments @returns {string} the path and the query that the page shows */
export function asked(defaults = {}) {
  const { path: target, query } = route.value;
  const more = Object.entries(defaults).filter(([name]) => !query.has(name));
  return href(target, new URLSearchParams([...query, ...more])).slice(1);
}

/**
 * @param {string} fragment
 * @param {{replace?: boolean, sel?: string | undefined}} [options] `replace`: no entry to go back to;
 *   `sel`: selected nodes, which the browser keeps with the entry
 */
export function go(fragment, { replace, sel } = {}) {
  history[replace ? "replaceState" : "pushState"](sel, "", fragment);
  route.value = readFragment(fragment);
}

/**
 * Change arguments of the present address; an empty value removes one.
 * @param {Record<string, string>} change keys of the view begin with `~`
 * @param {{replace?: boolean}} [options]
 */
export function changeRoute(change, options) {
  const { path: target, query, view } = route.value;
  const nextQuery = new URLSearchParams(query);
  const nextView = { ...view };
  for (const [name, value] of Object.entries(change)) {
    if (name.startsWith("~")) nextView[name.slice(1)] = value;
    else if (value) nextQuery.set(name, value);
    else nextQuery.delete(name);
  }
  go(href(target, nextQuery, nextView), { ...options, sel: nextView.sel });
}

// -- Settings of this browser, kept in its storage. None of them is a secret.

const NAME = "ironic-lite";
const DEFAULTS = {
  theme: /** @type {"auto" | "light" | "dark"} */ ("auto"),
  utc: false,
  keys: true,
  plain: false,
  views: /** @type {Record<string, string>} */ ({}),
};

function stored() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(NAME) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

/** `theme`, `utc` times, one-character `keys`, `plain` tables, saved `views` by name. */
export const prefs = signal(/** @type {typeof DEFAULTS} */ (stored()));

/** @param {Partial<typeof DEFAULTS>} change */
export function set(change) {
  prefs.value = { ...prefs.value, ...change };
}

// Else a tab would write over what another one has set.
addEventListener("storage", () => (prefs.value = stored()));

effect(() => {
  const { theme } = prefs.value;
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(NAME, JSON.stringify(prefs.value));
  } catch {
    // Storage is off or full: settings last as long as the page.
  }
});

/** True on a narrow screen, where rows of tables are cards of two lines. */
export const small = signal(false);
const media = matchMedia("(max-width: 720px)");
const measure = () => (small.value = media.matches);
media.addEventListener("change", measure);
measure();

// -- Time by the service's clock, and times as people read them.

let clockOffset = 0;

/** The service's time in milliseconds; it moves each second while the page is visible. */
export const now = signal(Date.now());

/** @param {string | null} date the header Date of an answer */
export function heard(date) {
  const at = date ? Date.parse(date) : NaN;
  // The header has whole seconds, so a smaller difference is no difference of clocks.
  if (!isNaN(at) && Math.abs(at - Date.now() - clockOffset) > 1500) clockOffset = at - Date.now();
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() + clockOffset;
}, 1000);

const UNITS = /** @type {const} */ ([
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
]);

/** @param {number | null} seconds @returns {string} at most two units: `6 h 10 min`; "" if it is not known */
export function duration(seconds) {
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

/** @param {string | null | undefined} at @returns {number} seconds since then; 0 without a time */
export function since(at) {
  return at ? Math.max(0, (now.value - Date.parse(at)) / 1000) : 0;
}

/** @type {Intl.DateTimeFormatOptions} */
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
/** @type {Intl.DateTimeFormatOptions} */
const DAY = { year: "numeric", month: "short", day: "numeric", timeZoneName: "short" };
/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** @param {string} at @param {boolean} utc @param {Intl.DateTimeFormatOptions} more beside hours and minutes */
function formatted(at, utc, more) {
  const date = new Date(at);
  if (isNaN(date.getTime())) return at;
  const name = JSON.stringify([utc, more]);
  const format = formats.get(name) ??
    new Intl.DateTimeFormat(undefined, { ...CLOCK, ...more, ...(utc && { timeZone: "UTC" }) });
  formats.set(name, format);
  return format.format(date);
}

/** Seconds, with milliseconds where the time has a fraction. @param {string} at */
const secondsOf = (at) => /** @type {const} */ ({
  second: "2-digit", ...(/\.\d/.test(at) && { fractionalSecondDigits: /** @type {3} */ (3) }),
});

/** @param {string} at @param {boolean} utc @returns {string} the whole time */
export const absolute = (at, utc) => formatted(at, utc, { ...DAY, ...secondsOf(at) });

/** After these hours, the time of a clock may be that of another day. */
const HALF_A_DAY_MS = 12 * 3600 * 1000;

/** @param {string} at @param {boolean} utc @param {boolean} [exact] with seconds @returns {string} `11:40`, or `Sun 11:40` */
export const clockTime = (at, utc, exact) => formatted(at, utc, exact ? secondsOf(at)
  : Date.parse(at) - now.value > HALF_A_DAY_MS ? { weekday: "short" } : {});
