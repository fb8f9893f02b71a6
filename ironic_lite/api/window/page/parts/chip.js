/** States as shape, word and colour. */
import { STATES } from "../facts.js";
import { h } from "../vendor/preact.js";
import { html, Text } from "./text.js";
import { KINDS, RESULTS } from "./words.js";

/** @param {{state: string | null}} props a provision state */
export function State({ state }) {
  const kind = STATES[state ?? ""]?.kind ?? "stable";
  return html`<span class=${`state ${kind}`}
    ><span class="sign" aria-hidden="true">${KINDS[kind]?.sign}</span>${h(Text, { of: state })}</span
  >`;
}

/** @param {{result: string, word?: boolean}} props a result of a run, a step or a check */
export function Result({ result, word = true }) {
  return html`<span class=${`result ${result}`}
    ><span class="sign" aria-hidden="true">${RESULTS[result] ?? "○"}</span>${word
      ? ` ${result}`
      : html`<span class="unseen">${result}</span>`}</span
  >`;
}
