/** Dialogs: one at a time, with the browser's own focus trap. */
import { h } from "../vendor/preact.js";
import { useEffect, useRef } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { Fault } from "../wire/faults.js";
import { Curl } from "./copy.js";
import { FaultBox } from "./read.js";
import { html } from "./text.js";

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
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    element.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog
    ref=${element}
    aria-labelledby="dialog-title"
    onClose=${close}
    onCancel=${close}
  >
    ${draw()}
  </dialog>`;
}

/**
 * The form of an act: its title, its fields, what was refused, its curl, and two buttons.
 * @param {{title: string, note?: string, fault?: Fault | null, request?: Record<string, any>,
 *   button?: string, ready?: boolean, send?: () => unknown, more?: any, children?: any}} props
 *   `more`: further buttons
 */
export function ActForm({ title, note, fault, request, button, ready = true, send, more, children }) {
  const submit = /** @param {Event} event */ (event) => {
    event.preventDefault();
    if (ready) void send?.();
  };
  return html`<form method="dialog" onSubmit=${submit}>
    <header class="dialog-head">
      <h2 id="dialog-title">${title}</h2>
      ${note && html`<span class="small">${note}</span>`}
    </header>
    ${children} ${fault && h(FaultBox, { fault })}
    <footer>
      ${request && h(Curl, /** @type {any} */ (request))}
      <button type="button" autofocus onClick=${close}>Cancel</button>
      ${more}
      ${button && html`<button class="primary" disabled=${!ready}>${button}</button>`}
    </footer>
  </form>`;
}
