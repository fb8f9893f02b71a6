/** A run: its steps, its log, and the state machine around its node. */
import { JOURNEYS, STATES } from "../facts.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { Ago, bdi, Curl, html, KINDS, Result, stepName, typed, verb, VERB_HINTS, visible } from "./text.js";
import { useDocument } from "./read.js";
import { absolute, changeRoute, clockTime, duration, href, now, path, prefs, route, since } from "../state/route.js";
import { open, sleep } from "../wire/api.js";
import { linesOf, POLL_MS, takeStream } from "../wire/feed.js";

/** @typedef {Record<string, any>} Json */

const LONGEST_BAR = 40;

/** @param {{run: Json, why?: Json | null}} props `why` of the node, for what the run waits for */
export function Timeline({ run, why }) {
  const steps = run.steps ?? [];
  const longest = Math.max(1, ...steps.map(seconds));
  const earlier = useDocument(run.retry_of && run.state === "failed" ? path("runs", run.retry_of) : null).body;
  return html`<div class="run">
    <p class="run-head">
      ${h(Result, { result: run.state })} <strong>${bdi(verb(run.verb))}</strong>
      ${run.requester && html` · ${bdi(run.requester)}`}${" · "}
      ${run.ended_at
        ? html`${duration((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000)}, ended
            ${" "}${h(Ago, { at: run.ended_at, ago: true })}`
        : html`for ${h(Ago, { at: run.started_at })}`}
      ${run.eta && !steps.some((/** @type {Json} */ step) => step.overdue) && html` · ${eta(run.eta)}`}
      ${run.retry_of &&
      html` · <a href=${href(path("runs", run.retry_of))}>retry of an earlier run</a>`}
    </p>
    ${earlier && html`<p class="wrong" role="status">The retry failed again, with ${causeOf(earlier) === causeOf(run) ? "the same" : "another"} cause.</p>`}
    ${run.error && !steps.length && html`<p class="wrong">${bdi(run.error.text)}</p>`}
    <ol class="steps" aria-label="Steps">
      ${steps.map((/** @type {Json} */ step) => h(Step, { key: step.ordinal, step, longest, own: path("nodes", run.node_uuid, "runs", run.uuid) }))}
    </ol>
    ${why?.waits_for && h(Waits, { waits: why.waits_for })}
  </div>`;
}

/** @param {Json} run */
const causeOf = ({ error }) => error?.cause?.text ?? error?.text;

/** @param {Json} step @returns {number} */
const seconds = (step) =>
  step.ended_at || !step.started_at ? step.duration_seconds ?? 0 : since(step.started_at);

/** @param {Json} found */
function eta(found) {
  const { utc } = prefs.value;
  return `~${clockTime(found.ends_at, utc)}, at the latest ${clockTime(found.late_at, utc)}`;
}

/** @param {{step: Json, longest: number, own: string}} props `own`: path of the run */
function Step({ step, longest, own }) {
  const state = step.done_in ? "kept" : step.waiver ? "waived" : step.state;
  const took = seconds(step);
  const width = { width: `${Math.max(0.3, (took / longest) * LONGEST_BAR)}%` };
  const usual = step.usual_seconds;
  return html`<li class=${state} id=${`step-${step.ordinal}`}>
    ${h(Result, { result: state, word: false })}
    <span class="step">${bdi(stepName(step))}</span>
    ${step.done_in
      ? html`<a href=${href(path("runs", step.done_in))}>done in an earlier run</a>`
      : step.started_at
        ? html`<span class="bar-frame"><span class="bar-of-time" style=${width} /> ${duration(took)}</span>`
        : html`<span>not reached</span>`}
    ${step.attempt > 1 ? html`<span>attempt ${step.attempt}</span>` : ""}
    ${step.overdue && html`<span class="danger">◷ overdue</span>`}
    ${usual && html`<span class="small usual">usual ${duration(usual.p50)}</span>`}
    ${step.waiver && html`<p class="small">waived: ${bdi(step.waiver.reason ?? step.waiver)}</p>`}
    ${step.error && h(Cause, { error: step.error, log: href(`${own}/log`, {}, { line: step.ended_at ?? step.started_at }) })}
  </li>`;
}

/** @param {{error: Json, log: string}} props `log`: the address of the line where the step ends */
function Cause({ error, log }) {
  const cause = error.cause ?? error;
  return html`<p class="wrong">
    ${bdi(cause.text)} <code class="small">${cause.code}</code> <a href=${log}>log at this line</a>
  </p>`;
}

/** @param {{waits: Json}} props */
function Waits({ waits }) {
  const left = Math.max(0, (Date.parse(waits.given_up_at) - now.value) / 1000);
  return html`<p class="waits">
    ◔ Waits for the ${waits.what}, for ${h(Ago, { at: waits.since })} now${waits.last_sign_at &&
    html`, last sign ${h(Ago, { at: waits.last_sign_at, ago: true })}`}${waits.given_up_at &&
    html`; given up in ${duration(left)}`}.
  </p>`;
}

// -- The log of a run: followed at its end, searched, filtered by source.

const MOST_LINES = 20000;
const LINE = /^(\S+) (\S+)\s+(.*)$/;

/** @param {{path: string, live: boolean}} props `path` of the run */
export function Log({ path, live }) {
  const lines = useLines(`${path}/log`, live);
  const [source, setSource] = useState("");
  const [words, setWords] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [following, setFollowing] = useState(true);
  const sources = useMemo(() => [...new Set(lines.map((line) => line.source))], [lines]);
  const shown = lines.filter((line) => !source || line.source === source);
  const hit = /** @param {Line} line */ (line) => words && line.text.toLowerCase().includes(words);
  const hits = shown.filter(hit);
  const { line: named } = route.value.view;
  // A number, or a time: the first line from then on.
  const chosen = named && shown.find((line) => (Number(named) ? line.number === Number(named) : line.at >= named));
  const at = chosen ? chosen.number : 0;
  /** @param {Line | undefined} line */
  const pick = (line) => line && changeRoute({ "~line": String(line.number) }, { replace: true });
  const next = () => pick(hits.find((line) => line.number > at) ?? hits[0]);
  const before = () => pick(hits.findLast((line) => line.number < at) ?? hits.at(-1));
  useEffect(() => {
    if (!at) return;
    setFollowing(false);
    document.getElementById(`line-${at}`)?.scrollIntoView({ block: "center" });
  }, [at]);
  const seen = useRef(0);
  if (following) seen.current = lines.length;
  const unseen = lines.length - seen.current;
  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, following]);
  const onScroll = () => {
    const at = box.current;
    if (at) setFollowing(at.scrollTop + at.clientHeight > at.scrollHeight - 20);
  };
  return html`<div class="filters">
      <input
        type="search"
        aria-label="Search the log"
        placeholder="/ search"
        onInput=${typed((value) => setWords(value.toLowerCase()))}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && next()}
      />
      ${words && html`<span>${hits.length} line${hits.length === 1 ? "" : "s"}</span>
        <button data-key="N" title="N" onClick=${before}>Previous</button>
        <button data-key="n" title="n" onClick=${next}>Next</button>`}
      ${sources.map(
        (one) => html`<button
          aria-pressed=${source === one}
          onClick=${() => setSource(source === one ? "" : one)}
        >
          ${visible(one)}
        </button>`,
      )}
      ${h(Curl, { path: `${path}/log`, stream: live })}
      ${!following && html`<button onClick=${() => setFollowing(true)}>
        ${unseen > 0 ? `${unseen} new line${unseen > 1 ? "s" : ""}` : "To the end"}
      </button>`}
    </div>
    <div class="log" ref=${box} onScroll=${onScroll} tabindex="0" role="log" aria-label="Log of the run">
      ${shown.map(
        (line) => html`<div class=${hit(line) ? "hit" : ""} id=${`line-${line.number}`}
          aria-current=${line === chosen ? "true" : undefined}>
          <a href=${href(`${path}/log`, {}, { line: String(line.number) })}><time
            title=${absolute(line.at, true)}>${clockTime(line.at, prefs.value.utc, true)}</time></a> <span class="source">${visible(line.source)}</span>
          ${" "}${visible(line.text)}
        </div>`,
      )}
      ${!lines.length && html`<p>No line yet.</p>`}
    </div>`;
}

/** @typedef {{number: number, at: string, source: string, text: string}} Line `number` in the log, from 1 */

/** @param {string} path @param {boolean} live @returns {Line[]} lines as they come */
function useLines(path, live) {
  const [lines, setLines] = useState(/** @type {Line[]} */ ([]));
  useEffect(() => {
    let abort = new AbortController();
    const begin = () => void follow(path, live, abort.signal, setLines);
    // A hidden tab gives its stream back, and reads the log again when it is seen.
    const turn = () => {
      abort.abort();
      abort = new AbortController();
      if (!document.hidden) begin();
    };
    setLines([]);
    begin();
    if (live) document.addEventListener("visibilitychange", turn);
    return () => {
      abort.abort();
      document.removeEventListener("visibilitychange", turn);
    };
  }, [path, live]);
  return lines;
}

/**
 * Read the log by a stream, or again and again if other tabs have all streams.
 * @param {string} path @param {boolean} live @param {AbortSignal} abort
 * @param {(lines: Line[]) => void} onLines
 */
async function follow(path, live, abort, onLines) {
  for (;;) {
    const release = live ? await takeStream() : null;
    try {
      await readLog(path + (release ? "?follow=true" : ""), abort, onLines);
    } catch {
      // The page shows what came; a new run or a reload reads it again.
    } finally {
      release?.();
    }
    if (!live || release) return;
    await sleep(POLL_MS);
    if (abort.aborted) return;
  }
}

/** @param {string} path @param {AbortSignal} abort @param {(lines: Line[]) => void} onLines */
async function readLog(path, abort, onLines) {
  const answer = await open("GET", path, { signal: abort });
  if (!answer.ok || !answer.body) return;
  /** @type {Line[]} */
  let all = [];
  let number = 0;
  for await (const lines of linesOf(answer.body)) {
    all = [...all, ...lines.map((text) => line(text, (number += 1)))].slice(-MOST_LINES);
    onLines(all);
    await sleep(50);
  }
}

/** @param {string} text @param {number} number @returns {Line} */
function line(text, number) {
  const [, at = "", source = "", rest = text] = LINE.exec(text) ?? [];
  return { number, at, source, text: rest };
}

// -- The state machine around a node: where it stands, and what each offered verb leads to.

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
      ${!RESTING.includes(state) && drawPassing(state, journey)} ${edges(state, offered)}
    </svg>
    <ol class="unseen">
      <li>The node is in the state ${state}.</li>
      ${offered.map((/** @type {Json} */ one) => html`<li>${verb(one.target)} leads to ${one.leads_to}: ${VERB_HINTS[one.target]}.</li>`)}
    </ol>
  </figure>`;
}

/** @param {string} state @param {number} x @param {number} y @param {boolean} here */
function box(state, x, y, here, wide = WIDE) {
  const kind = STATES[state] ?? "stable";
  return html`<g class=${`box ${kind}${here ? " here" : ""}`}>
    <rect x=${x + 1} y=${y} width=${wide} height=${TALL} rx="5" />
    <text x=${x + wide / 2 + 1} y=${y + 17} text-anchor="middle">
      ${here ? `${KINDS[kind]} ` : ""}${state}
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
function drawPassing(state, journey) {
  const x = column(state) * GAP + 24;
  const label = journey ? verb(journey.verb).toLowerCase() : "";
  return html`<path class="arrow" d="M${x - 8} 32v24h8" />
    <text class="label" x=${x - 2} y="46">${label}</text>
    ${box(state, x + 4, 50, true, WIDE + 30)}`;
}

/** @param {string} state @param {Json[]} offered */
function edges(state, offered) {
  const resting = RESTING.includes(state);
  const x = column(state) * GAP + (resting ? 24 : 56);
  const top = resting ? 34 : 80;
  return offered.map((one, at) => {
    const y = top + at * 22 + 14;
    return html`<path class="arrow" d="M${x} ${top}V${y - 4}h14" />
      <text class="label" x=${x + 20} y=${y}>${verb(one.target)} → ${one.leads_to}</text>`;
  });
}
