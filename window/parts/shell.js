/** The frame of every page: navigation, connection, login, theme, palette, shortcuts. */
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { openMaintenance, openPower, POWER_ACTS } from "./actions.js";
import { BULK } from "./bulk.js";
import { ActForm, close, covered, DialogHost, show } from "./dialog.js";
import { openHold, openLift } from "./holds.js";
import { openVerb, verbsFrom } from "./plan.js";
import { bdi, copy, Curl, field, html, hush, nameOf, nodeAddress, many, said, say, typed, verb, visible } from "./text.js";
import { fleet, followFleet, selectedNodes } from "../state/nodes.js";
import { asked, clockTime, duration, go, now, path, prefs, route, set } from "../state/route.js";
import { curl, offline } from "../wire/api.js";
import { heardAt, mode, newer } from "../wire/feed.js";
import { logInBasic, logInToken, loginUser, loginWanted } from "../wire/login.js";

/** Pages in the navigation: key of the shortcut, label, address. */
const PAGES = /** @type {const} */ ([
  ["f", "Fleet", "/v1/nodes"],
  ["r", "Runs", "/v1/runs"],
  ["b", "Batches", "/v1/batches"],
  ["e", "Events", "/v1/events"],
  ["v", "Erasures", "/v1/erasures"],
  ["s", "Steps", "/v1/stats/steps"],
  ["d", "Doctor", "/v1/doctor"],
]);

/** @param {{children?: any}} props */
export function Shell({ children }) {
  const { path } = route.value;
  // On a narrow screen the navigation is behind a button, which names the page.
  const [menu, setMenu] = useState(false);
  useEffect(() => setMenu(false), [path]);
  const here = PAGES.find(([, , address]) => current(path, address))?.[1] ?? "Menu";
  const onKey = /** @param {KeyboardEvent} event */ (event) => {
    if (event.key !== "Escape" || !menu) return;
    setMenu(false);
    event.stopPropagation();
  };
  return html`<a class="skip" href="#main-content" onClick=${skip}>Skip to the content</a>
    <header class=${menu ? "bar open" : "bar"} onKeyDown=${onKey}>
      <a class="brand" href="#/v1/nodes">ironic-lite</a>
      <button class="pages" aria-expanded=${String(menu)} aria-controls="pages" onClick=${() => setMenu(!menu)}>
        <span aria-hidden="true">☰</span> ${here}
      </button>
      <nav id="pages" aria-label="Pages">
        ${PAGES.map(
          ([, label, address]) =>
            html`<a href=${`#${address}`} aria-current=${current(path, address)}>${label}</a>`,
        )}
      </nav>
      ${h(Connection, {})}
      <button class="quiet" onClick=${openPalette} aria-keyshortcuts="Control+K">Find…</button>
      <span class="tools">
        ${h(Curl, { path: asked() })}
        <button class="quiet" onClick=${openHelp} aria-label="Help and shortcuts">?</button>
        <button class="quiet" onClick=${nextTheme} aria-label=${`Theme: ${prefs.value.theme}`}>
          ${{ auto: "◑", light: "☀", dark: "☾" }[prefs.value.theme]}
        </button>
        <a href="#/v1/whoami" aria-current=${current(path, "/v1/whoami")}>${loginUser.value || "settings"}</a>
      </span>
    </header>
    ${h(Bars, {})}
    <main id="main-content" tabindex="-1">${children}</main>
    <div class="live" role="status" aria-live="polite">
      ${said.value.map((one) => html`<p>
        ${visible(one.text)} ${one.to && html`${one.to !== location.hash && html`<a href=${one.to} onClick=${closing(one)}>Show</a>`}
          <button class="quiet" aria-label="Close this message" onClick=${closing(one)}>×</button>`}
      </p>`)}
    </div>
    ${loginWanted.value && h(Login, { kind: loginWanted.value })} ${h(DialogHost, {})}`;
}

/** @param {unknown} one */
const closing = (one) => () => hush((other) => other === one);

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main-content")?.focus();
}

/** @param {string} path @param {string} address */
const current = (path, address) =>
  path === address || path.startsWith(`${address}/`) ? "page" : undefined;

function nextTheme() {
  const order = /** @type {const} */ ({ auto: "light", light: "dark", dark: "auto" });
  set({ theme: order[prefs.value.theme] });
}

const STALE_SECONDS = 15;

/** How the page hears of changes, and the age of its data. */
function Connection() {
  void now.value; // It is drawn again each second.
  const lost = offline.value;
  if (lost) {
    const at = clockTime(lost.toISOString(), prefs.value.utc);
    return html`<span class="connection off">○ offline since ${at}</span>`;
  }
  const age = (performance.now() - heardAt.value) / 1000;
  const live = `● live${age > STALE_SECONDS ? `, ${duration(age)} old` : ""}`;
  /** @type {Record<string, string>} */
  const words = { stream: live, wait: live, poll: "◌ every 5 s", again: "◌ every 10 s", off: "○ offline" };
  return html`<span class="connection">${words[mode.value]}</span>`;
}

/** Bars that say what is wrong with the way to the service. */
function Bars() {
  const plain = location.protocol === "http:" && !/^(localhost|127\.|\[::1)/.test(location.hostname);
  return html`${newer.value &&
    html`<p class="notice" role="status"><button onClick=${() => location.reload()}>Reload: new version</button></p>`}
    ${plain &&
    loginUser.value &&
    html`<p class="notice">This connection is not encrypted: the login is readable on the way.</p>`}`;
}

/** @param {{kind: "basic" | "keystone"}} props */
function Login({ kind }) {
  const [name, setName] = useState("");
  const submit = /** @param {any} event */ (event) => {
    event.preventDefault();
    const field = event.target.elements.secret;
    const secret = field.value;
    field.value = "";
    if (kind === "basic") logInBasic(name, secret);
    else logInToken(secret);
  };
  // Modal, because it has to be above a dialog that waits for this login.
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Without a login there is nothing to go on with, so Escape does not close it.
  const open = () => element.current?.showModal();
  useEffect(open, []);
  return html`<dialog class="login" aria-label="Log in" ref=${element} onClose=${open}>
    <form onSubmit=${submit}>
      ${loginUser.value && html`<p class="wrong" role="alert">This login is refused, or has expired.</p>`}
      <p>
        ${kind === "basic"
          ? "This service wants a user name and a password (http_basic)."
          : html`This service wants a Keystone token: <code>openstack token issue -f value -c id</code>`}
      </p>
      ${kind === "basic" &&
      field("User", { name: "user", autocomplete: "username", autofocus: true, onInput: typed(setName) })}
      ${field(kind === "basic" ? "Password" : "Token", {
        name: "secret", type: "password", autocomplete: "current-password",
      })}
      <button class="primary">Log in</button> <span class="small">kept in memory only</span>
    </form>
  </dialog>`;
}

// -- The palette: pages, nodes by name, and acts on the nodes that are shown or selected.

const MOST = 20;

/** @typedef {{label: string, hint: string, act: () => void}} Entry */

function openPalette() {
  void followFleet(); // A page opened cold knows no nodes.
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
  const found = [...actsHere(), ...pages, ...views, ...others].filter((one) =>
    one.label.toLowerCase().includes(wanted),
  );
  return [...found, ...nodesNamed(wanted)].slice(0, MOST);
}

/** @param {string} wanted @returns {Entry[]} */
function nodesNamed(wanted) {
  if (!wanted) return [];
  const found = [];
  for (const node of fleet.nodes.values()) {
    const name = String(nameOf(node));
    if (!name.toLowerCase().includes(wanted) && !node.uuid.startsWith(wanted)) continue;
    found.push({ label: name, hint: node.provision_state, act: () => go(nodeAddress(node)) });
    if (found.length === MOST) break;
  }
  return found;
}

/** @returns {Entry[]} acts on the node that is shown, or on those that are selected */
function actsHere() {
  const [root, name] = route.value.parts;
  const chosen = selectedNodes();
  /** @param {string} hint @param {string} of @returns {(act: [string, () => void]) => Entry} */
  const entry = (hint, of) => ([label, act]) => ({ label: `${label} ${of}`, hint, act });
  if (root === "nodes" && !name && chosen.length) {
    return Object.entries(BULK).map(([label, act]) => entry("act", many(chosen.length))([label, () => act(chosen)]));
  }
  const node = root === "nodes" && [...fleet.nodes.values()].find((one) => one.name === name || one.uuid === name);
  if (!name || !node) return [];
  const own = path("nodes", node.uuid);
  const holds = fleet.holds.value.get(node.uuid) ?? [];
  const verbs = verbsFrom(new Set([node.provision_state])).map((target) =>
    /** @type {[string, () => void]} */ ([verb(target), () => openVerb(node, target)]));
  const acts = /** @type {[string, () => void][]} */ ([
    ["Hold", () => openHold({ own, name, holds })],
    ...(holds.length ? [["Lift hold of", () => openLift({ own, name, holds })]] : []),
    [node.maintenance ? "End maintenance of" : "Maintenance of", () => openMaintenance(node)],
    ...POWER_ACTS.map((one) => [verb(one[0]), () => openPower(node, one)]),
  ]);
  return [...verbs.map(entry("verb", name)), ...acts.map(entry("act", name))];
}

function saveView() {
  const name = decodeURIComponent(location.hash.slice(1));
  set({ views: { ...prefs.value.views, [name]: location.hash } });
  say(`Saved: ${name}`);
}

function Palette() {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  void fleet.tick.value; // A page opened cold is still reading its nodes.
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
      onInput=${typed((value) => (setWords(value), setAt(0)))}
      onKeyDown=${keys}
    />
    <button class="quiet" onClick=${close}>Close</button>
    <ul id="palette-list" role="listbox" aria-label="Found">
      ${found.map(
        (one, place) => html`<li
          id=${`palette-${place}`}
          role="option"
          aria-selected=${String(place === chosen)}
          onClick=${() => run(one)}
        >
          ${bdi(one.label)} <span class="small">${one.hint}</span>
        </li>`,
      )}
    </ul>
    ${!found.length && html`<p role="status">No match.</p>`}
  </div>`;
}

// -- Shortcuts of the whole page.

const HELP = /** @type {const} */ ([
  ["Ctrl-K  :", "find pages, nodes, verbs"],
  ["/", "filter or search"],
  ["g then f r b e v s d", "pages"],
  ["j k ↑ ↓ Home End", "row"],
  ["x Shift-↓ Ctrl-A", "select"],
  ["Enter  Esc", "open; close or clear"],
  ["c  y", "copy the page or the row as curl, copy the address"],
  ["1 – 9  w l", "tab of a node; its run, its log"],
  ["n  N", "next, previous line that is searched in a log"],
  [".", "acts on a node"],
  ["t  ?", "theme, help"],
]);

function openHelp() {
  show(() =>
    h(ActForm, { title: "Shortcuts" }, html`<dl class="help">
        ${HELP.map(([keys, what]) => html`<dt><kbd>${keys}</kbd></dt><dd>${what}</dd>`)}
      </dl>`),
  );
}

/** @param {string} selector @returns {HTMLElement | null} */
const elementOf = (selector) => document.querySelector(selector);

let goes = 0;

/** @type {Record<string, () => void>} */
const ACTS = {
  ":": openPalette,
  "/": () => elementOf("input[type=search]")?.focus(),
  "?": openHelp,
  t: nextTheme,
  Escape: () => hush(() => true),
  y: () => copy(location.href),
  w: () => elementOf('[data-key="1"]')?.click(),
  l: () => elementOf('[data-key="2"]')?.click(),
  ".": () => elementOf(".actions button")?.focus(),
  c: () => copy(curl("GET", asked())),
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
  if (covered() || field || !prefs.value.keys) return undefined;
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (performance.now() - goes < 1500) {
    goes = 0;
    const page = PAGES.find(([key]) => key === event.key);
    if (page) return go(`#${page[2]}`);
  }
  if (/^[1-9nN]$/.test(event.key)) return elementOf(`[data-key="${event.key}"]`)?.click();
  const act = ACTS[event.key];
  if (!act) return undefined;
  event.preventDefault();
  return act();
});
