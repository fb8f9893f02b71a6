/** Text that comes from machines and people: shown as it is, never obeyed. */
import { absolute, duration, since } from "../state/clock.js";
import { prefs } from "../state/prefs.js";
import { html } from "./html.js";

export { html };


const LONGEST = 4096;
const ANSI = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;
// Control characters, zero-width characters and those that change the direction of text.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** @param {unknown} value @returns {string} without ANSI sequences; hidden characters as `‹U+202E›` */
export function visible(value) {
  const text = typeof value === "string" ? value : value == null ? "" : JSON.stringify(value);
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
  return short.replace(ANSI, "").replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `‹U+${code}›`;
  });
}

/** @param {{of: unknown, class?: string, title?: string}} props */
export function Text({ of, class: name, title }) {
  return html`<bdi class=${name} title=${title}>${visible(of)}</bdi>`;
}

/**
 * A time as its distance from now, with the whole time as its title.
 * @param {{at: string | null | undefined, ago?: boolean}} props
 */
export function Ago({ at, ago = false }) {
  if (!at) return null;
  const { utc } = prefs.value;
  return html`<time datetime=${at} title=${absolute(at, utc)}
    >${duration(since(at))}${ago ? " ago" : ""}</time
  >`;
}

/** @param {{at: string | null | undefined}} props */
export function Stamp({ at }) {
  if (!at) return null;
  return html`<time datetime=${at}>${absolute(at, prefs.value.utc)}</time>`;
}
