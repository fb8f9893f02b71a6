/** Dialogs: one at a time, with the browser's own focus trap; the form of new machines. */
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { signal } from "../vendor/signals.js";
import { FaultBox, useDocument } from "./read.js";
import { bdi, choice, Curl, field, html, hush, nodeAddress, say, typed, visible } from "./text.js";
import { go, path, route } from "../state/route.js";
import { sendChange, Fault, get, key, secret, sleep } from "../wire/api.js";

/** The dialog that is open: a function that draws it. */
export const opened = signal(/** @type {(() => any) | null} */ (null));

/** @param {() => any} draw */
export function show(draw) {
  opened.value = draw;
}

export function close() {
  opened.value = null;
}

// Dialogs, menus and sentences are of the page below them.
let below = "";
route.subscribe((next) => {
  close();
  if (next.path === below) return;
  below = next.path;
  document.querySelectorAll(".menu").forEach((menu) => menu.removeAttribute("open"));
  hush((one) => !one.to);
});

/** True while a dialog is on the screen: the browser closes it before it tells so. */
export const covered = () => !!document.querySelector("dialog[open]");

/** Draws the dialog that is open. */
export function DialogHost() {
  const draw = opened.value;
  return draw && h(Frame, { key: draw, draw });
}

/** @param {{draw: () => any}} props */
function Frame({ draw }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // At once: a key that follows the press, such as Escape, is for the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close(); // The browser returns the focus.
  }, []);
  const onClose = () => opened.value === draw && close();
  return html`<dialog ref=${element} aria-labelledby="dialog-title" onClose=${onClose}>
    ${draw()}
  </dialog>`;
}

/** @typedef {Record<string, any>} Json */

/**
 * What a button shows over the page until it loses the focus, or one of its buttons is pressed.
 * @param {{name: string, children?: any}} props
 */
export function Menu({ name, children }) {
  // Before the button acts: its dialog returns the focus to where it was.
  const leave = /** @param {any} event */ ({ currentTarget: menu }) => {
    menu.open = false;
    menu.firstElementChild.focus();
  };
  const onKey = /** @param {any} event */ (event) => {
    if (event.key !== "Escape" || !event.currentTarget.open) return;
    event.stopPropagation();
    leave(event);
  };
  const onLeft = /** @param {any} event */ ({ relatedTarget, currentTarget: menu }) => {
    if (!menu.contains(relatedTarget)) menu.open = false;
  };
  const onClick = /** @param {any} event */ (event) => event.target.closest("button") && leave(event);
  return html`<details class="menu" onKeyDown=${onKey} onFocusOut=${onLeft} onClickCapture=${onClick}>
    <summary>${name}</summary><div>${children}</div>
  </details>`;
}

/** A node as it was read: its fields and its tag. @typedef {{body: Json | null, tag: string}} Version */

/** @type {Version} */
const NONE = { body: null, tag: "" };
const LOCK_MS = 1000;

/**
 * The version of a node that a dialog is about: read when it opens, because the page below may be
 * late, and again while a conductor works on the node if the act has to wait for that.
 * @param {string | undefined} of the path of the node @param {boolean} waits
 * @param {(fault: Fault) => void} onFault
 */
function useVersion(of, waits, onFault) {
  const [version, setVersion] = useState(NONE);
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      const { body, tag } = await get(/** @type {string} */ (of), abort.signal);
      setVersion({ body, tag });
      if (!waits || !body.reservation) return;
      await sleep(LOCK_MS);
      if (!abort.signal.aborted) await read();
    };
    if (of) read().catch((fault) => abort.signal.aborted || onFault(fault));
    return () => abort.abort();
  }, [of]);
  return /** @type {const} */ ([version, setVersion]);
}

/**
 * Send the change of a form. Its key stays until the service answers, so a lost answer and another
 * press change the node once. If the node is no more as it was read, both versions are shown.
 * @param {Parameters<typeof sendChange>[0] & {of?: string, waits?: boolean, seen?: Version}} request
 *   `of`: the path of the node whose version is named; `waits`: for the end of its lock, too;
 *   `seen`: the version if it was read before
 * @param {(answer: import("../wire/api.js").Answer) => void} onDone
 * @param {(fault: Fault) => Fault | null} [onFault] returns what is shown of it
 * @returns what `ActForm` takes of it
 */
export function useSend({ of, waits = false, seen, ...request }, onDone, onFault = (fault) => fault) {
  const once = useRef(key());
  const none = { busy: false, fault: /** @type {Fault | null} */ (null), now: NONE };
  const [state, setState] = useState(none);
  const [read, setRead] = useVersion(seen ? undefined : of, waits, (fault) => setState({ ...none, fault }));
  const known = seen ?? read;
  const asked = of ? { ...request, tag: known.tag } : request;
  const sendOf = /** @param {string | undefined} tag */ async (tag) => {
    const mine = opened.value;
    setState({ ...none, busy: true });
    try {
      const answer = await sendChange({ ...asked, ...(tag && { tag }), key: once.current });
      once.current = key();
      setState(none);
      if (opened.value === mine) close();
      onDone(answer);
    } catch (error) {
      const fault = /** @type {Fault} */ (error);
      if (fault.status) once.current = key();
      const now = of && fault.status === 412 ? await get(of).catch(() => NONE) : NONE;
      setState({ busy: false, fault: onFault(fault), now });
    }
  };
  // What was said of another input is not true of this one.
  useEffect(() => setState((old) => (old.fault ? none : old)), [JSON.stringify(request.body)]);
  const headers = /** @type {Record<string, string>} */ ({ "Idempotency-Key": once.current });
  if (asked.tag) headers["If-Match"] = asked.tag;
  const choice = state.now.body && h(Choice, {
    seen: known.body ?? {}, now: state.now.body,
    onMine: () => (setRead(state.now), void sendOf(state.now.tag)), onTheirs: () => (setState(none), close()),
  });
  const holder = waits ? known.body?.reservation : null;
  return {
    ...state, choice, holder, known: !choice && (!of || (!!known.tag && !holder)),
    send: () => sendOf(asked.tag), request: { ...asked, headers },
  };
}

/** Fields that differ in each version. */
const MOVING = /_at$|^(links|reservation)$/;

/** What differs between two versions of a node. @param {{seen: Json, now: Json}} props */
export function Changes({ seen, now }) {
  const text = /** @param {unknown} value */ (value) => bdi(value ?? "null");
  const names = Object.keys(now).filter((name) =>
    name in seen && !MOVING.test(name) && JSON.stringify(seen[name]) !== JSON.stringify(now[name]));
  return html`<dl class="tree" aria-label="What has changed">
    ${names.map((name) => html`<dt>${name}</dt><dd>${text(seen[name])} → ${text(now[name])}</dd>`)}
  </dl>`;
}

/** @param {{seen: Json, now: Json, onMine: () => void, onTheirs: () => void}} props */
function Choice({ seen, now, onMine, onTheirs }) {
  return html`${h(Changes, { seen, now })}
    <div class="actions"><button type="button" onClick=${onMine}>Use mine</button>
      <button type="button" onClick=${onTheirs}>Take theirs</button></div>`;
}

/**
 * The form of an act: its title, its fields, what was refused, its curl, and two buttons.
 * @param {{title: string, note?: string, fault?: Fault | null, request?: Record<string, any>, choice?: any,
 *   holder?: string | null, button?: string, danger?: boolean, ready?: boolean, known?: boolean, busy?: boolean,
 *   send?: (() => unknown) | undefined, more?: any, children?: any}} props
 *   `choice`: between two versions; `holder` of the lock that the act waits for; `more`: further buttons
 */
export function ActForm(props) {
  const { title, note, fault, request, button, danger, ready = true, known = true, busy, send, more } = props;
  const can = ready && known && !busy;
  const submit = /** @param {Event} event */ (event) => {
    event.preventDefault();
    if (can) void send?.();
  };
  return html`<form method="dialog" onSubmit=${submit}>
    <header class="dialog-head">
      <h2 id="dialog-title">${visible(title)}</h2>
      ${note && html`<span class="small">${note}</span>`}
    </header>
    ${props.children} ${fault && h(FaultBox, { fault })} ${props.choice}
    ${props.holder && html`<p role="status">${bdi(props.holder)} works on this node. The window waits for it.</p>`}
    <footer>
      ${request && h(Curl, /** @type {any} */ (request))}
      <button type="button" autofocus onClick=${close}>${send ? "Cancel" : "Close"}</button>
      ${more}
      ${send && button && html`<button class=${danger ? "danger" : "primary"} disabled=${!can}>${button}</button>`}
    </footer>
  </form>`;
}

// -- The dialog that enrolls a machine: its driver, and what the driver requires.

export function openEnroll() {
  show(() => h(Enroll, {}));
}

function Enroll() {
  const [chosen, setChosen] = useState("");
  const [body, setBody] = useState(/** @type {Json} */ ({}));
  const drivers = useDocument("/v1/drivers");
  const names = (drivers.body?.drivers ?? []).map((/** @type {Json} */ one) => one.name);
  const driver = chosen || names[0];
  const properties = useDocument(driver ? path("drivers", driver, "properties") : null);
  const fields = Object.entries(/** @type {Record<string, string>} */ (properties.body ?? {}));
  const sending = useSend({ method: "POST", path: "/v1/nodes", body: { ...body, driver } }, (answer) => {
    go(nodeAddress(answer.body));
    say("The node is enrolled.");
  });
  /** @param {string} name */
  const info = (name) =>
    typed((value) => setBody({ ...body, driver_info: withValue(body.driver_info ?? {}, name, value) }));
  const act = {
    ...sending, fault: sending.fault ?? drivers.fault ?? properties.fault, title: "Enroll a machine", button: "Enroll",
    ready: !!driver,
  };
  return h(ActForm, act, html`
    <div class="form-grid">
      ${field("Name", {
        autocomplete: "off", onInput: typed((value) => setBody(withValue(body, "name", value))),
      })}
      ${choice("Driver", driver, (next) => (setChosen(next), setBody(withValue(body, "driver_info", ""))), names)}
      ${fields
        .filter(([, about]) => /required/i.test(about))
        .map(([name, about]) =>
          field(name, {
            key: name, title: about, type: secret.test(name) ? "password" : "text",
            autocomplete: secret.test(name) ? "new-password" : "off", onInput: info(name),
          }),
        )}
    </div>`);
}

/** @param {Json} all @param {string} name @param {string} value "" removes the key */
export function withValue(all, name, value) {
  const { [name]: _, ...rest } = all;
  return value ? { ...rest, [name]: value } : rest;
}
