/** The state machine around a node: where it stands, and what each offered verb leads to. */
import { JOURNEYS, STATES } from "../facts.js";
import { html } from "./text.js";
import { KINDS, verb } from "./words.js";

/** @typedef {Record<string, any>} Json */

const RESTING = ["enroll", "manageable", "available", "active", "rescue", "error"];
const GAP = 128;
const WIDE = 100;
const TALL = 26;

/** @param {{why: Json}} props */
export function Machine({ why }) {
  const state = why.provision_state;
  const offered = why.verbs.filter((/** @type {Json} */ one) => !one.refused);
  const passing = JOURNEYS.filter((one) => [one.busy, one.failed, ...one.pauses].includes(state));
  const journey = passing.find((one) => one.verb === why.run?.verb) ?? passing[0];
  return html`<figure class="machine">
    <svg
      viewBox="0 0 ${RESTING.length * GAP} ${44 + offered.length * 22 + (RESTING.includes(state) ? 0 : 44)}"
      aria-hidden="true"
      role="img"
    >
      ${RESTING.map((one, at) => box(one, at * GAP, 4, one === state))}
      ${RESTING.slice(1, 5).map((_, at) => arrow(at * GAP + WIDE, 17, (at + 1) * GAP, 17))}
      ${!RESTING.includes(state) && under(state, journey)} ${edges(state, offered)}
    </svg>
    <ol class="unseen">
      <li>The node is in the state ${state}.</li>
      ${offered.map((/** @type {Json} */ one) => html`<li>${verb(one.target)} leads to ${one.leads_to}.</li>`)}
    </ol>
  </figure>`;
}

/** @param {string} state @param {number} x @param {number} y @param {boolean} here */
function box(state, x, y, here) {
  const kind = STATES[state]?.kind ?? "stable";
  return html`<g class=${`box ${kind}${here ? " here" : ""}`}>
    <rect x=${x + 1} y=${y} width=${WIDE} height=${TALL} rx="5" />
    <text x=${x + WIDE / 2 + 1} y=${y + 17} text-anchor="middle">
      ${here ? `${KINDS[kind]?.sign} ` : ""}${state}
    </text>
  </g>`;
}

/** @param {number} x @param {number} y @param {number} toX @param {number} toY */
function arrow(x, y, toX, toY) {
  return html`<path class="arrow" d="M${x + 3} ${y}L${toX - 3} ${toY}m-6 -4l6 4l-6 4" />`;
}

/** @param {string} state @returns {number} where its journey begins */
function column(state) {
  const start = JOURNEYS.find((one) => [one.busy, one.failed, ...one.pauses].includes(state))?.from;
  return Math.max(0, RESTING.indexOf(start ?? state));
}

/** @param {string} state @param {any} journey */
function under(state, journey) {
  const x = column(state) * GAP + 24;
  const label = journey ? verb(journey.verb).toLowerCase() : "";
  return html`<path class="arrow" d="M${x - 8} 32v24h8" />
    <text class="label" x=${x - 2} y="46">${label}</text>
    ${box(state, x + 4, 50, true)}`;
}

/** @param {string} state @param {Json[]} offered */
function edges(state, offered) {
  const resting = RESTING.includes(state);
  const x = column(state) * GAP + (resting ? 24 : 56);
  const top = resting ? 34 : 80;
  return offered.map((one, at) => {
    const y = top + at * 22 + 14;
    return html`<path class="arrow" d="M${x} ${top}V${y - 4}h14" />
      <text class="label" x=${x + 20} y=${y}>${verb(one.target)} ─▶ ${one.leads_to}</text>`;
  });
}
