/** Start of the window: draws the page that the fragment of the address names. */
import { type ComponentType, render } from "preact";
import { useEffect } from "preact/hooks";
import { Fleet } from "./pages/fleet";
import { lazy, loadAll } from "./parts/lazy";
import { Shell } from "./parts/shell";
import { visible } from "./parts/words";
import { route } from "./state/route";

const NodePage = lazy(async () => (await import("./pages/node")).NodePage);
const ResourcePage = lazy(async () => (await import("./pages/resources")).ResourcePage);
const DocumentPage = lazy(async () => (await import("./pages/lists")).DocumentPage);

/** Pages by the first part of their path; any other path of the API is shown as its document. */
const PAGES: Record<string, ComponentType<any>> = {
  runs: lazy(async () => (await import("./pages/lists")).RunsPage),
  batches: lazy(async () => (await import("./pages/batches")).BatchesPage),
  events: lazy(async () => (await import("./parts/activity")).ActivityPage),
  erasures: lazy(async () => (await import("./pages/evidence")).EvidencePage),
  stats: lazy(async () => (await import("./pages/lists")).StepsPage),
  doctor: lazy(async () => (await import("./pages/lists")).DoctorPage),
  conductors: ResourcePage,
  runbooks: ResourcePage,
  deploy_templates: ResourcePage,
  allocations: ResourcePage,
  webhooks: ResourcePage,
  whoami: lazy(async () => (await import("./pages/lists")).SettingsPage),
};

function App() {
  const { parts } = route.value;
  const [root = "nodes", name] = parts;
  const Page = root === "nodes" ? (name ? NodePage : Fleet) : (PAGES[root] ?? DocumentPage);
  useEffect(() => {
    scrollTo(0, 0);
    // The element that had the focus may have gone with the last page.
    if (document.activeElement === document.body) document.getElementById("main-content")?.focus();
  }, [root, name]);
  document.title = `${visible(name ?? root)} · ironic-lite`;
  return (
    <Shell>
      <Page key={name ?? root} />
    </Shell>
  );
}

const root = document.getElementById("window") as HTMLElement;
root.replaceChildren();
render(<App />, root);
(globalThis.requestIdleCallback ?? setTimeout)(() => void loadAll());
