/** Settings of this browser, kept in its storage. None of them is a secret. */
import { effect, signal } from "../vendor/signals.js";

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

effect(() => {
  const { theme } = prefs.value;
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(NAME, JSON.stringify(prefs.value));
  } catch {
    // Storage is off or full: settings last as long as the page.
  }
});
