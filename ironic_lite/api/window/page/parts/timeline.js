/** A run: its steps as bars of time, their attempts, and what the run waits for. */
import { h } from "../vendor/preact.js";
import { clockTime, duration, since } from "../state/clock.js";
import { prefs } from "../state/prefs.js";
import { href, path } from "../state/route.js";
import { Result } from "./chip.js";
import { Ago, html, Text } from "./text.js";

/** @typedef {Record<string, any>} Json */

const LONGEST_BAR = 40;

/** @param {{run: Json, why?: Json | null}} props `why` of the node, for what the run waits for */
export function Timeline({ run, why }) {
  const steps = run.steps ?? [];
  const longest = Math.max(1, ...steps.map(seconds));
  return html`<div class="run">
    <p class="run-head">
      ${h(Result, { result: run.state })} <strong>${h(Text, { of: run.verb })}</strong>
      ${run.requester && html` · ${h(Text, { of: run.requester })}`}${" · "}
      ${run.ended_at
        ? html`${duration((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000)}, ended
            ${" "}${h(Ago, { at: run.ended_at, ago: true })}`
        : html`for ${h(Ago, { at: run.started_at })}`}
      ${run.eta && html` · ${eta(run.eta)}`}
      ${run.retry_of &&
      html` · <a href=${href(path("runs", run.retry_of))}>retry of an earlier run</a>`}
    </p>
    ${run.error && !steps.length && html`<p class="wrong">${h(Text, { of: run.error.text })}</p>`}
    <ol class="steps">
      ${steps.map((/** @type {Json} */ step) => h(Step, { key: step.ordinal, step, longest }))}
    </ol>
    ${why?.waits_for && h(Waits, { waits: why.waits_for })}
  </div>`;
}

/** @param {Json} step @returns {number} */
const seconds = (step) =>
  step.ended_at || !step.started_at ? step.duration_seconds ?? 0 : since(step.started_at);

/** @param {Json} found */
function eta(found) {
  const { utc } = prefs.value;
  return `~${clockTime(found.ends_at, utc)}, at the latest ${clockTime(found.late_at, utc)}`;
}

/** @param {{step: Json, longest: number}} props */
function Step({ step, longest }) {
  const state = step.done_in ? "kept" : step.waiver ? "waived" : step.state;
  const took = seconds(step);
  const width = { width: `${Math.max(0.3, (took / longest) * LONGEST_BAR)}%` };
  const usual = step.usual_seconds;
  return html`<li class=${state} id=${`step-${step.ordinal}`}>
    ${h(Result, { result: state, word: false })}
    <span class="step">${h(Text, { of: `${step.interface}.${step.step}` })}</span>
    ${step.done_in
      ? html`<a href=${href(path("runs", step.done_in))}>done in an earlier run</a>`
      : step.started_at
        ? html`<span class="bar-frame"><span class="bar-of-time" style=${width} /> ${duration(took)}</span>`
        : html`<span>not reached</span>`}
    ${step.attempt > 1 ? html`<span>attempt ${step.attempt}</span>` : ""}
    ${step.overdue && html`<span class="danger">◷ overdue</span>`}
    ${usual && html`<span class="small usual">usual ${duration(usual.p50)}</span>`}
    ${step.waiver && html`<p class="small">waived: ${h(Text, { of: step.waiver.reason ?? step.waiver })}</p>`}
    ${step.error && h(Cause, { error: step.error })}
  </li>`;
}

/** @param {{error: Json}} props */
function Cause({ error }) {
  const cause = error.cause ?? error;
  return html`<p class="wrong">
    <code>${cause.code}</code> · ${h(Text, { of: cause.text })}
  </p>`;
}

/** @param {{waits: Json}} props */
function Waits({ waits }) {
  const left = waits.given_up_at ? -since(waits.given_up_at) || untilNow(waits.given_up_at) : 0;
  return html`<p class="waits">
    ◔ Waits for the ${waits.what} since ${h(Ago, { at: waits.since })}${waits.last_sign_at &&
    html`, last sign ${h(Ago, { at: waits.last_sign_at, ago: true })}`}${waits.given_up_at &&
    html`; given up in ${duration(left)} (${waits.limit})`}.
  </p>`;
}

/** @param {string} at a time in the future @returns {number} seconds */
const untilNow = (at) => Math.max(0, (Date.parse(at) - Date.now()) / 1000);
