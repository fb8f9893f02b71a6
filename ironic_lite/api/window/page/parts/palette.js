/** The palette: pages, nodes by name, and verbs of the node that is shown. */
import { VERBS } from "../facts.js";
import { useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { nodes } from "../state/nodes.js";
import { prefs, set } from "../state/prefs.js";
import { go, href, path, route } from "../state/route.js";
import { close, show } from "./dialog.js";
import { openVerb } from "./plan.js";
import { nextTheme, PAGES } from "./shell.js";
import { html, Text } from "./text.js";
import { verb } from "./words.js";

const MOST = 12;

/** @typedef {{label: string, hint: string, act: () => void}} Entry */

export function openPalette() {
  show(() => h(Palette, {}));
}

/** @param {string} words @returns {Entry[]} */
function entries(words) {
  const wanted = words.toLowerCase();
  const pages = PAGES.map(([, label, address]) => ({
    label, hint: "page", act: () => go(`#${address}`),
  }));
  const views = Object.entries(prefs.value.views).map(([name, address]) => ({
    label: name, hint: "saved view", act: () => go(address),
  }));
  const others = [
    { label: "Save this view", hint: "setting", act: saveView },
    { label: "Next theme", hint: "setting", act: nextTheme },
    { label: "Settings", hint: "page", act: () => go("#/v1/whoami") },
  ];
  const found = [...verbsHere(), ...pages, ...views, ...others].filter((one) =>
    one.label.toLowerCase().includes(wanted),
  );
  return [...found, ...nodesNamed(wanted)].slice(0, MOST);
}

/** @param {string} wanted @returns {Entry[]} */
function nodesNamed(wanted) {
  if (!wanted) return [];
  const found = [];
  for (const node of nodes.values()) {
    const name = String(node.name ?? node.uuid);
    if (!name.toLowerCase().includes(wanted) && !node.uuid.startsWith(wanted)) continue;
    found.push({ label: name, hint: node.provision_state, act: () => go(href(path("nodes", name))) });
    if (found.length === MOST) break;
  }
  return found;
}

/** @returns {Entry[]} */
function verbsHere() {
  const { parts } = route.value;
  if (parts[0] !== "nodes" || !parts[1]) return [];
  const node = [...nodes.values()].find((one) => one.name === parts[1] || one.uuid === parts[1]);
  if (!node) return [];
  const from = VERBS.filter((one) => one.from.includes(node.provision_state));
  return [...new Set(from.map((one) => one.target))].map((target) => ({
    label: `${verb(target)} ${parts[1]}`, hint: "verb", act: () => openVerb(node, target),
  }));
}

function saveView() {
  const name = decodeURIComponent(location.hash.slice(1));
  set({ views: { ...prefs.value.views, [name]: location.hash } });
}

function Palette() {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const found = entries(words);
  const chosen = Math.min(at, found.length - 1);
  /** @param {Entry | undefined} entry */
  const run = (entry) => {
    close();
    entry?.act();
  };
  const keys = /** @param {KeyboardEvent} event */ (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt(Math.max(0, Math.min(found.length - 1, chosen + step)));
    else if (event.key === "Enter") run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<div class="palette">
    <h2 id="dialog-title" class="unseen">Find</h2>
    <input
      autofocus
      role="combobox"
      aria-expanded="true"
      aria-controls="palette-list"
      aria-activedescendant=${`palette-${chosen}`}
      aria-label="Pages, nodes and verbs"
      placeholder="Pages, nodes, verbs"
      onInput=${(/** @type {any} */ event) => (setWords(event.target.value), setAt(0))}
      onKeyDown=${keys}
    />
    <ul id="palette-list" role="listbox" aria-label="Found">
      ${found.map(
        (one, place) => html`<li
          id=${`palette-${place}`}
          role="option"
          aria-selected=${String(place === chosen)}
          onClick=${() => run(one)}
        >
          ${h(Text, { of: one.label })} <span class="small">${one.hint}</span>
        </li>`,
      )}
    </ul>
  </div>`;
}
