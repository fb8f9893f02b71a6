/** Dialogs: one at a time, with the browser's own focus trap; the form of new machines. */
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { signal } from "../vendor/signals.js";
import { FaultBox } from "./read.js";
import { bdi, choice, Curl, field, html, say, typed, visible } from "./text.js";
import { go, href, path } from "../state/route.js";
import { sendChange, Fault, get, key, secret } from "../wire/api.js";

/** The dialog that is open: a function that draws it. */
export const opened = signal(/** @type {(() => any) | null} */ (null));

/** @param {() => any} draw */
export function show(draw) {
  opened.value = draw;
}

export function close() {
  opened.value = null;
}

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

/**
 * Send the change of a form. Its key stays until the service answers, so a lost answer and another
 * press change the node once.
 * @param {Parameters<typeof sendChange>[0]} request
 * @param {(answer: import("../wire/api.js").Answer) => void} onDone
 * @param {(fault: Fault) => Fault | null} [onFault] returns what is shown of it
 * @returns what `ActForm` takes of it: `fault`, `busy`, `send`, and the request with its headers
 */
export function useSend(request, onDone, onFault = (fault) => fault) {
  const once = useRef(key());
  const none = { busy: false, fault: /** @type {Fault | null} */ (null) };
  const [state, setState] = useState(none);
  const send = async () => {
    setState({ busy: true, fault: null });
    try {
      const answer = await sendChange({ ...request, key: once.current });
      once.current = key();
      setState(none);
      close();
      onDone(answer);
    } catch (error) {
      const fault = /** @type {Fault} */ (error);
      if (fault.status) once.current = key();
      setState({ busy: false, fault: onFault(fault) });
    }
  };
  // What was said of another input is not true of this one.
  useEffect(() => setState((old) => (old.fault ? none : old)), [JSON.stringify(request.body)]);
  const headers = /** @type {Record<string, string>} */ ({ "Idempotency-Key": once.current });
  if (request.tag) headers["If-Match"] = request.tag;
  return { ...state, send, request: { ...request, headers } };
}

/**
 * The form of an act: its title, its fields, what was refused, its curl, and two buttons.
 * @param {{title: string, note?: string, fault?: Fault | null, request?: Record<string, any>,
 *   button?: string, ready?: boolean, busy?: boolean, send?: () => unknown, more?: any, children?: any}} props
 *   `more`: further buttons
 */
export function ActForm({ title, note, fault, request, button, ready = true, busy, send, more, children }) {
  const submit = /** @param {Event} event */ (event) => {
    event.preventDefault();
    if (ready && !busy) void send?.();
  };
  return html`<form method="dialog" onSubmit=${submit}>
    <header class="dialog-head">
      <h2 id="dialog-title">${visible(title)}</h2>
      ${note && html`<span class="small">${note}</span>`}
    </header>
    ${children} ${fault && h(FaultBox, { fault })}
    <footer>
      ${request && h(Curl, /** @type {any} */ (request))}
      <button type="button" autofocus onClick=${close}>${send ? "Cancel" : "Close"}</button>
      ${more}
      ${button && html`<button class="primary" disabled=${!ready || busy}>${button}</button>`}
    </footer>
  </form>`;
}

/** @typedef {Record<string, any>} Json */

// -- The dialog that enrolls a machine: its driver, and what the driver requires.

export function openEnroll() {
  show(() => h(Enroll, {}));
}

function Enroll() {
  const [drivers, setDrivers] = useState(/** @type {string[]} */ ([]));
  const [driver, setDriver] = useState("");
  const [fields, setFields] = useState(/** @type {Json} */ ({}));
  const [body, setBody] = useState(/** @type {Json} */ ({}));
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  useEffect(() => {
    get("/v1/drivers").then(({ body: found }) => {
      const names = found.drivers.map((/** @type {Json} */ one) => one.name);
      setDrivers(names);
      setDriver(names[0] ?? "");
    }, setFault);
  }, []);
  useEffect(() => {
    if (driver) get(path("drivers", driver, "properties")).then((found) => setFields(found.body), setFault);
  }, [driver]);
  const sending = useSend({ method: "POST", path: "/v1/nodes", body: { ...body, driver } }, (answer) => {
    say("The node is enrolled.");
    go(href(path("nodes", answer.body.name ?? answer.body.uuid)));
  });
  /** @param {string} name */
  const info = (name) =>
    typed((value) => setBody({ ...body, driver_info: withValue(body.driver_info ?? {}, name, value) }));
  const act = {
    ...sending, fault: sending.fault ?? fault, title: "Enroll a machine", button: "Enroll",
    ready: !!driver,
  };
  return h(ActForm, act, html`
    <div class="form-grid">
      ${field("Name", {
        autocomplete: "off", onInput: typed((value) => setBody(withValue(body, "name", value))),
      })}
      ${choice("Driver", driver, setDriver, drivers)}
      ${Object.entries(fields)
        .filter(([, about]) => /required/i.test(about))
        .map(([name, about]) =>
          field(name, {
            key: name, title: about, type: secret.test(name) ? "password" : "text",
            autocomplete: secret.test(name) ? "new-password" : "off", onInput: info(name),
          }),
        )}
    </div>
    <details>
      <summary>Optional properties of this driver</summary>
      <dl class="small">
        ${Object.entries(fields).map(([name, about]) => html`<dt>${name}</dt><dd>${bdi(about)}</dd>`)}
      </dl>
    </details>`);
}

/** @param {Json} all @param {string} name @param {string} value "" removes the key */
export function withValue(all, name, value) {
  const { [name]: _, ...rest } = all;
  return value ? { ...rest, [name]: value } : rest;
}
