/** Settings of this browser, kept in its storage. None of them is a secret. */
import { effect, signal } from "@preact/signals";

const NAME = "ironic-lite";
const DEFAULTS = {
  theme: "auto" as "auto" | "light" | "dark",
  utc: false,
  keys: true,
  plain: false,
  views: {} as Record<string, string>,
};

function stored() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(NAME) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

/** `theme`, `utc` times, one-character `keys`, `plain` tables, saved `views` by name. */
export const prefs = signal(stored() as typeof DEFAULTS);

export function set(change: Partial<typeof DEFAULTS>) {
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
