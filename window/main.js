/** Start of the window: draws the page that the fragment of the address names. */
import { useEffect } from "./vendor/hooks.js";
import { h, render } from "./vendor/preact.js";
import { BatchesPage } from "./pages/batches.js";
import { EvidencePage } from "./pages/evidence.js";
import { Fleet } from "./pages/fleet.js";
import {
  DoctorPage, DocumentPage, EventsPage, RunsPage, SettingsPage, StepsPage,
} from "./pages/lists.js";
import { NodePage } from "./pages/node.js";
import { Shell } from "./parts/shell.js";
import { visible } from "./parts/text.js";
import { route } from "./state/route.js";

/** @type {Record<string, () => any>} */
const VIEWS = {
  runs: RunsPage,
  batches: BatchesPage,
  events: EventsPage,
  erasures: EvidencePage,
  stats: StepsPage,
  doctor: DoctorPage,
  whoami: SettingsPage,
};

function App() {
  const { parts } = route.value;
  const [root = "nodes", name] = parts;
  const page = root === "nodes" ? (name ? NodePage : Fleet) : VIEWS[root] ?? DocumentPage;
  useEffect(() => {
    scrollTo(0, 0);
    // The element that had the focus may have gone with the last page.
    if (document.activeElement === document.body) document.getElementById("main-content")?.focus();
  }, [root, name]);
  document.title = `${visible(name ?? root)} · ironic-lite`;
  return h(Shell, { children: h(page, { key: name ?? root }) });
}

const root = /** @type {HTMLElement} */ (document.getElementById("window"));
root.replaceChildren();
render(h(App, {}), root);
