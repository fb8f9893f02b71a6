/** The frame of every page: navigation, connection, login, theme, palette, shortcuts. */
import { useEffect, useRef, useState } from "preact/hooks";
import { duration, now } from "../state/clock";
import { go, request, route } from "../state/route";
import { prefs } from "../state/settings";
import { answers, offline } from "../wire/away";
import { curl } from "../wire/curl";
import { heardAt, mode, newer } from "../wire/feed";
import { logInBasic, logInToken, loginUser, loginWanted } from "../wire/login";
import { covered, DialogHost, Menu } from "./dialog";
import { Field, typed } from "./fields";
import { Observed } from "./observed";
import { openHelp, openPalette } from "./palette";
import { MORE, nextTheme, PAGES } from "./places";
import { copy, Curl, documents, hush } from "./toasts";
import { Messages, Tray } from "./tray";
import { unanswered } from "./words";

export function Shell({ children }: { children?: any }) {
  const { path } = route.value;
  // On a narrow screen the navigation is behind a button, which names the page.
  const [menu, setMenu] = useState(false);
  useEffect(() => setMenu(false), [path]);
  const places = [...PAGES.map(([, ...place]) => place), ...MORE];
  const here = places.find(([, address]) => current(path, address))?.[0] ?? "Menu";
  const pageLink = ([label, address]: (typeof places)[number]) => (
    <a href={`#${address}`} aria-current={current(path, address)}>
      {label}
    </a>
  );
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !menu) return;
    setMenu(false);
    event.stopPropagation();
  };
  return (
    <>
      <a class="skip" href="#main-content" onClick={skip}>
        Skip to the content
      </a>
      <header class={menu ? "bar open" : "bar"} onKeyDown={onKey}>
        <a class="brand" href="#/v1/nodes">
          ironic-lite
        </a>
        <button class="pages" aria-expanded={menu} aria-controls="pages" onClick={() => setMenu(!menu)}>
          <span aria-hidden="true">☰</span> {here}
        </button>
        <nav id="pages" aria-label="Pages">
          {PAGES.map(([, ...place]) => pageLink(place))}
          <Menu name="More">{MORE.map(pageLink)}</Menu>
        </nav>
        <Connection />
        <Tray />
        <button class="quiet" onClick={openPalette} aria-keyshortcuts="Control+K">
          Find…
        </button>
        <span class="tools">
          <CurlMenu />
          <button class="quiet" onClick={openHelp} aria-label="Help and shortcuts">
            ?
          </button>
          <button class="quiet" onClick={nextTheme} aria-label={`Theme: ${prefs.value.theme}`}>
            {{ auto: "◑", light: "☀", dark: "☾" }[prefs.value.theme]}
          </button>
          <a href="#/v1/whoami" aria-current={current(path, "/v1/whoami")}>
            {loginUser.value || "Settings"}
          </a>
        </span>
        {offline.value && (
          <p class="notice" role="alert">
            {unanswered()} <button onClick={() => answers(new Date())}>Try now</button>
          </p>
        )}
      </header>
      <Bars />
      <Observed />
      <main id="main-content" tabindex={-1}>
        {children}
      </main>
      <Messages />
      {loginWanted.value && <Login kind={loginWanted.value} />} <DialogHost />
    </>
  );
}

const UUID = /([\da-f]{8})(-[\da-f]{4}){3}-[\da-f]{12}/g;

/** The menu that copies requests as curl: that of the page, and those of all documents that it shows. */
function CurlMenu() {
  const page = { path: request(), label: "", stream: false };
  const all = new Map([page, ...documents.value].map((document) => [document.path, document]));
  const labelOf = (path: string) => path.replace(/\?.*/, "").replace(UUID, "$1…");
  return (
    <Menu name=">_ curl" label="Copy as curl">
      {[...all.values()].map(({ label, ...document }) => (
        <Curl key={document.path} {...document} label={label || labelOf(document.path)} />
      ))}
    </Menu>
  );
}

function skip(event: Event) {
  event.preventDefault();
  document.getElementById("main-content")?.focus();
}

const current = (path: string, address: string) =>
  path === address || path.startsWith(`${address}/`) ? "page" : undefined;

const STALE_SECONDS = 15;

/** How the page hears of changes, and the age of its data. */
function Connection() {
  void now.value; // It is drawn again each second.
  if (offline.value || mode.value === "off") return <span class="connection off">○ offline</span>;
  const age = (performance.now() - heardAt.value) / 1000;
  const live = `● live${age > STALE_SECONDS ? `, ${duration(age)} old` : ""}`;
  const words: Record<string, string> = {
    stream: live,
    wait: live,
    poll: "◌ every 5 s",
    again: "◌ every 10 s",
  };
  return <span class="connection">{words[mode.value]}</span>;
}

/** Bars that say what is wrong with the way to the service. */
function Bars() {
  const plain = location.protocol === "http:" && !/^(localhost|127\.|\[::1)/.test(location.hostname);
  return (
    <>
      {newer.value && (
        <p class="notice" role="status">
          <button onClick={() => location.reload()}>Reload: new version</button>
        </p>
      )}
      {plain && loginUser.value && (
        <p class="notice">This connection is not encrypted: the login is readable on the way.</p>
      )}
    </>
  );
}

function Login({ kind }: { kind: "basic" | "keystone" }) {
  const [name, setName] = useState("");
  const submit = (event: any) => {
    event.preventDefault();
    const field = event.target.elements.secret;
    const secret = field.value;
    field.value = "";
    if (kind === "basic") logInBasic(name, secret);
    else void logInToken(secret);
  };
  // Modal, because it has to be above a dialog that waits for this login.
  const element = useRef(null as HTMLDialogElement | null);
  // Without a login there is nothing to go on with, so Escape does not close it.
  const open = () => element.current?.showModal();
  useEffect(open, []);
  return (
    <dialog class="login" aria-label="Log in" ref={element} onClose={open}>
      <form onSubmit={submit}>
        {loginUser.value && (
          <p class="wrong" role="alert">
            This login is refused, or has expired.
          </p>
        )}
        <p>
          {kind === "basic" ? (
            "This service wants a user name and a password (http_basic)."
          ) : (
            <>
              This service wants a Keystone token: <code>openstack token issue -f value -c id</code>
            </>
          )}
        </p>
        {kind === "basic" && (
          <Field label="User" name="user" autocomplete="username" autofocus onInput={typed(setName)} />
        )}
        <Field
          label={kind === "basic" ? "Password" : "Token"}
          name="secret"
          type="password"
          autocomplete="current-password"
        />
        <button class="primary">Log in</button> <span class="small">kept in memory only</span>
      </form>
    </dialog>
  );
}

const elementOf = (selector: string): HTMLElement | null => document.querySelector(selector);

let goes = 0;

/** Keys of the table, which work before it has the focus, too. */
const OF_TABLE = ["j", "k", "x", "Enter"];

/** Let the table have the focus and a key; a link or a button that has the focus keeps Enter. */
function toTable(event: KeyboardEvent) {
  const table = elementOf("main [role=grid]");
  const focused = document.activeElement;
  if (!table || (event.key === "Enter" && focused !== document.body && focused?.id !== "main-content"))
    return;
  event.preventDefault();
  table.focus();
  table.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
}

/** Fields that a key of one character is for: a box takes none but the space. */
const TYPED = "input:not([type=checkbox], [type=radio]), textarea, select";

const ACTS: Record<string, () => void> = {
  ":": openPalette,
  "/": () => elementOf("input[type=search]")?.focus(),
  "?": openHelp,
  t: nextTheme,
  Escape: () => hush(() => true),
  y: () => copy(location.href),
  w: () => elementOf('[data-key="1"]')?.click(),
  l: () => elementOf('[data-key="l"]')?.click(),
  ".": () => elementOf(".actions button, .bulk button")?.focus(),
  c: () => copy(curl("GET", request())),
  g: () => {
    goes = performance.now();
  },
};

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    return covered() ? undefined : openPalette(); // What a dialog holds is not lost by a key.
  }
  const field = (event.target as HTMLElement).closest(TYPED);
  if (covered() || field || !prefs.value.keys) return undefined;
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (performance.now() - goes < 1500) {
    goes = 0;
    const page = PAGES.find(([key]) => key === event.key);
    if (page) return go(`#${page[2]}`);
  }
  if (/^[1-9nN]$/.test(event.key)) return elementOf(`[data-key="${event.key}"]`)?.click();
  if (OF_TABLE.includes(event.key)) return toTable(event);
  const act = ACTS[event.key];
  if (!act) return undefined;
  event.preventDefault();
  return act();
});
