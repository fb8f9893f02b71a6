/** Dialogs: one at a time, with the browser's own focus trap. */
import { h } from "../vendor/preact.js";
import { useEffect, useRef } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
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
 * @param {{title: string, note?: string, children?: any}} props
 */
export function DialogHead({ title, note }) {
  return html`<header class="dialog-head">
    <h2 id="dialog-title">${title}</h2>
    ${note && html`<span class="small">${note}</span>`}
  </header>`;
}
