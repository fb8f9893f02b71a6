/** Shortcuts of the whole page. */
import { h } from "../vendor/preact.js";
import { prefs } from "../state/prefs.js";
import { go, route } from "../state/route.js";
import { curl } from "../wire/curl.js";
import { copy } from "./copy.js";
import { ActForm, opened, show } from "./dialog.js";
import { openPalette } from "./palette.js";
import { nextTheme, PAGES } from "./shell.js";
import { html } from "./text.js";

const HELP = /** @type {const} */ ([
  ["Ctrl-K  :", "find pages, nodes, verbs"],
  ["/", "filter or search"],
  ["g then f r b e v s d", "pages"],
  ["j k ↑ ↓ Home End", "row"],
  ["x Shift-↓ Ctrl-A", "select"],
  ["Enter  Esc", "open, back or clear"],
  ["c  y", "copy as curl, copy the address"],
  ["1 – 9", "tab of a node"],
  ["t  ?", "theme, help"],
]);

export function openHelp() {
  show(() =>
    h(ActForm, { title: "Shortcuts" }, html`<dl class="help">
        ${HELP.map(([keys, what]) => html`<dt><kbd>${keys}</kbd></dt><dd>${what}</dd>`)}
      </dl>
      <p>
        Every page is a path of the API: leave out <code>/ui/#</code> and it is the address for curl.
      </p>`),
  );
}

let goes = 0;

/** @type {Record<string, () => void>} */
const ACTS = {
  ":": openPalette,
  "/": () => /** @type {HTMLElement | null} */ (document.querySelector("input[type=search]"))?.focus(),
  "?": openHelp,
  t: nextTheme,
  y: () => void copy(location.href),
  c: () => {
    const { path, query } = route.value;
    const text = query.toString();
    void copy(curl("GET", text ? `${path}?${text}` : path));
  },
  g: () => {
    goes = performance.now();
  },
};

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    return openPalette();
  }
  const field = /** @type {HTMLElement} */ (event.target).closest("input, textarea, select");
  if (opened.value || field || !prefs.value.keys) return undefined;
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (performance.now() - goes < 1500) {
    goes = 0;
    const page = PAGES.find(([key]) => key === event.key);
    if (page) return go(`#${page[2]}`);
  }
  if (/^[1-9]$/.test(event.key)) {
    const tab = /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${event.key}"]`));
    return tab?.click();
  }
  const act = ACTS[event.key];
  if (!act) return undefined;
  event.preventDefault();
  return act();
});
