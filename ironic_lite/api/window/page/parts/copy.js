/** Buttons that copy a request as curl, or another text. */
import { signal } from "../vendor/signals.js";
import { curl } from "../wire/curl.js";
import { html } from "./text.js";

/** A sentence for the live region: the result of the last own action. */
export const said = signal("");

const SHOWN_MS = 8000;
let until = 0;

/** @param {string} sentence */
export function say(sentence) {
  said.value = sentence;
  clearTimeout(until);
  until = window.setTimeout(() => {
    said.value = "";
  }, SHOWN_MS);
}

/** @param {string} text */
export async function copy(text) {
  // Without TLS and by address there is no `navigator.clipboard`.
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copyBySelection(text);
  say("Copied.");
}

/** @param {string} text */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/**
 * @param {{method?: string, path: string, body?: unknown, headers?: Record<string, string>,
 *   stream?: boolean, label?: string}} props
 */
export function Curl({ method = "GET", path, body, headers, stream, label = "curl" }) {
  const text = curl(method, path, options({ body, headers, stream }));
  return html`<button
    type="button"
    class="quiet curl"
    title=${text}
    aria-label=${`Copy as curl: ${method} ${path}`}
    onClick=${() => void copy(text)}
  >
    <span aria-hidden="true">${">_"}</span> ${label}
  </button>`;
}

/** @param {Record<string, any>} all */
const options = (all) =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
