// Start of the window: draws the page named by the fragment of the address.
import { html } from "./parts/html.js";
import { h, render } from "./vendor/preact.js";
import { Fleet } from "./pages/fleet.js";

function App() {
  return html`<header><strong>ironic-lite</strong></header><main>${h(Fleet, {})}</main>`;
}

const root = /** @type {HTMLElement} */ (document.getElementById("window"));
root.replaceChildren();
render(h(App, {}), root);
