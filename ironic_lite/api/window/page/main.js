/** Start of the window: draws the page that the fragment of the address names. */
import { openHelp } from "./parts/keys.js";
import { openPalette } from "./parts/palette.js";
import { Shell } from "./parts/shell.js";
import { BatchesPage } from "./pages/batches.js";
import { Fleet } from "./pages/fleet.js";
import * as lists from "./pages/lists.js";
import { NodePage } from "./pages/node.js";
import { route } from "./state/route.js";
import { useEffect } from "./vendor/hooks.js";
import { h, render } from "./vendor/preact.js";

/** @type {Record<string, () => any>} */
const PAGES = {
  runs: lists.RunsPage,
  batches: BatchesPage,
  events: lists.EventsPage,
  erasures: lists.EvidencePage,
  stats: lists.StepsPage,
  doctor: lists.DoctorPage,
  whoami: lists.SettingsPage,
};

function App() {
  const { parts } = route.value;
  const [root = "nodes", name] = parts;
  const page = root === "nodes" ? (name ? NodePage : Fleet) : PAGES[root] ?? lists.DocumentPage;
  useEffect(() => {
    // The element that had the focus may have gone with the last page.
    if (document.activeElement === document.body) document.getElementById("main-content")?.focus();
  }, [root, name]);
  document.title = `${name ?? root} · ironic-lite`;
  return h(Shell, { onPalette: openPalette, onHelp: openHelp, children: h(page, { key: name ?? root }) });
}

const root = /** @type {HTMLElement} */ (document.getElementById("window"));
root.replaceChildren();
render(h(App, {}), root);
