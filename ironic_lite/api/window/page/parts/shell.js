/** The frame of every page: navigation, connection, login, theme. */
import { useEffect, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { duration } from "../state/clock.js";
import { prefs, set } from "../state/prefs.js";
import { route } from "../state/route.js";
import { offline } from "../wire/api.js";
import { heardAt, mode } from "../wire/feed.js";
import * as login from "../wire/login.js";
import { Curl, said } from "./copy.js";
import { DialogHost } from "./dialog.js";
import { html } from "./text.js";

/** Pages in the navigation: key of the shortcut, label, address. */
export const PAGES = /** @type {const} */ ([
  ["f", "Fleet", "/v1/nodes"],
  ["r", "Runs", "/v1/runs"],
  ["b", "Batches", "/v1/batches"],
  ["e", "Events", "/v1/events"],
  ["v", "Evidence", "/v1/erasures"],
  ["s", "Steps", "/v1/stats/steps"],
  ["d", "Doctor", "/v1/doctor"],
]);

/** @param {{children?: any, onPalette: () => void, onHelp: () => void}} props */
export function Shell({ children, onPalette, onHelp }) {
  const { path, query } = route.value;
  const text = query.toString();
  return html`<a class="skip" href="#main-content" onClick=${skip}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href="#/v1/nodes">ironic-lite</a>
      <nav aria-label="Pages">
        ${PAGES.map(
          ([, label, address]) =>
            html`<a href=${`#${address}`} aria-current=${current(path, address)}>${label}</a>`,
        )}
      </nav>
      ${h(Connection, {})}
      <button class="quiet" onClick=${onPalette} aria-keyshortcuts="Control+K">Find…</button>
      ${h(Curl, { path: text ? `${path}?${text}` : path })}
      <button class="quiet" onClick=${onHelp} aria-label="Help and shortcuts">?</button>
      <button class="quiet" onClick=${nextTheme} aria-label=${`Theme: ${prefs.value.theme}`}>
        ${{ auto: "◑", light: "☀", dark: "☾" }[prefs.value.theme]}
      </button>
      <a href="#/v1/whoami">${login.user.value || "settings"}</a>
    </header>
    ${h(Bars, {})}
    <main id="main-content" tabindex="-1">${children}</main>
    <div class="live" role="status" aria-live="polite">${said.value}</div>
    ${login.wanted.value && h(Login, { kind: login.wanted.value })} ${h(DialogHost, {})}`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main-content")?.focus();
}

/** @param {string} path @param {string} address */
const current = (path, address) =>
  path === address || path.startsWith(`${address}/`) ? "page" : undefined;

export function nextTheme() {
  const order = /** @type {const} */ ({ auto: "light", light: "dark", dark: "auto" });
  set({ theme: order[prefs.value.theme] });
}

/** How the page hears of changes, and the age of its data. */
function Connection() {
  const [, setTurn] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTurn((last) => last + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const lost = offline.value;
  if (lost) {
    const at = lost.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
    return html`<span class="connection off">○ offline since ${at}</span>`;
  }
  const age = duration((performance.now() - heardAt.value) / 1000);
  const words = {
    stream: `● live ${age}`, wait: `● live ${age}`, poll: "◌ every 5 s", off: "◌ connecting",
  };
  return html`<span class="connection">${words[mode.value]}</span>`;
}

/** Bars that say what is wrong with the way to the service. */
function Bars() {
  const plain = location.protocol === "http:" && !/^(localhost|127\.|\[::1)/.test(location.hostname);
  if (!plain || !login.present()) return null;
  return html`<p class="notice">
    This connection is not encrypted: the login is readable on the way.
  </p>`;
}

/** @param {{kind: "basic" | "keystone"}} props */
function Login({ kind }) {
  const [name, setName] = useState("");
  const submit = /** @param {any} event */ (event) => {
    event.preventDefault();
    const field = event.target.elements.secret;
    const secret = field.value;
    field.value = "";
    if (kind === "basic") login.basic(name, secret);
    else login.keystone(secret);
  };
  return html`<div class="login" role="dialog" aria-modal="true" aria-label="Log in">
    <form onSubmit=${submit}>
      <p>
        ${kind === "basic"
          ? "This service wants a user name and a password (http_basic)."
          : html`This service wants a Keystone token: <code>openstack token issue -f value -c id</code>`}
      </p>
      ${kind === "basic" &&
      html`<label
        >User
        <input
          name="user"
          autocomplete="username"
          autofocus
          onInput=${(/** @type {any} */ event) => setName(event.target.value)}
      /></label>`}
      <label
        >${kind === "basic" ? "Password" : "Token"}
        <input name="secret" type="password" autocomplete="current-password" />
      </label>
      <button class="primary">Log in</button> <span class="small">kept in memory only</span>
    </form>
  </div>`;
}
