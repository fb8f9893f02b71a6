/** A run: its steps, its log, and the states around its node. */
import { VERBS } from "../facts.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { Ago, bdi, causeOf, Curl, ERASING, expected, html, many, OVERDUE, Result, State, stepName, typed, verb, VERB_HINTS, visible } from "./text.js";
import { useDocument, wrong } from "./read.js";
import { absolute, changeRoute, clockTime, duration, href, now, path, prefs, route, since } from "../state/route.js";
import { fault, open, passing, sleep } from "../wire/api.js";
import { linesOf, POLL_MS, takeStream } from "../wire/feed.js";

/** @typedef {Record<string, any>} Json */
/** @typedef {import("../wire/api.js").Fault} Fault */

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
        ? html`${duration((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000)}, ended ${h(Ago, { at: run.ended_at, ago: true })}`
        : html`for ${h(Ago, { at: run.started_at })}`}
      ${run.eta && !steps.some((/** @type {Json} */ step) => step.overdue) && html` · ${expected(run.eta)}`}
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

/** @param {Json} step @returns {number} */
const seconds = (step) =>
  step.ended_at || !step.started_at ? step.duration_seconds ?? 0 : since(step.started_at);

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
    ${step.overdue && html`<p class="small">${OVERDUE}</p>`}
    ${step.waiver && html`<p class="small">waived: ${bdi(step.waiver.reason ?? step.waiver)}</p>`}
    ${step.ended_at && ERASING.test(step.step) && html`<a href=${`#${own.replace(/runs.*/, "erasures")}`}>erasures</a>`}
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
const FAILURE = /^\S+ failed/;

/** @param {{path: string, live: boolean}} props `path` of the run */
export function Log({ path, live }) {
  const [lines, fault] = useLines(`${path}/log`, live);
  const [source, setSource] = useState("");
  const [words, setWords] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [following, setFollowing] = useState(true);
  const sources = useMemo(() => [...new Set(lines.map((line) => line.source))], [lines]);
  const shown = lines.filter((line) => !source || line.source === source);
  const hit = /** @param {Line} line */ (line) => words && line.text.toLowerCase().includes(words);
  const hits = shown.filter(hit);
  const { line: named } = route.value.view;
  // A number, or the time at which a step has failed: the line that says so, else the first from then on.
  const from = shown.filter((line) => (Number(named) ? line.number === Number(named) : named && line.at >= named));
  const chosen = from.find((line) => FAILURE.test(line.text)) ?? from[0];
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
      ${words && html`<span>${many(hits.length, "line")}</span>
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
        ${unseen > 0 ? many(unseen, "new line") : "To the end"}
      </button>`}
    </div>
    <div class="log" ref=${box} onScroll=${onScroll} tabindex="0" role="log" aria-label="Log of the run">
      ${shown.map(
        (line) => html`<div class=${hit(line) ? "hit" : ""} id=${`line-${line.number}`}
          aria-current=${line === chosen ? "true" : undefined}>
          <a href=${href(`${path}/log`, {}, { line: String(line.number) })}><time
            title=${absolute(line.at, true)}>${clockTime(line.at, prefs.value.utc, true)}</time></a> <span class="source">${visible(line.source)}</span> ${visible(line.text)}
        </div>`,
      )}
      ${!lines.length && !fault && html`<p>No line yet.</p>`}
    </div>${wrong(fault, `${path}/log`)}`;
}

/** @typedef {{number: number, at: string, source: string, text: string}} Line `number` in the log, from 1 */

/** @param {string} path @param {boolean} live lines as they come, and why they do not */
function useLines(path, live) {
  const [lines, setLines] = useState(/** @type {Line[]} */ ([]));
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  useEffect(() => {
    let abort = new AbortController();
    const begin = () => void follow(path, live, abort.signal, setLines, setFault);
    // A hidden tab gives its stream back, and reads the log again when it is seen.
    const turn = () => {
      abort.abort();
      abort = new AbortController();
      if (!document.hidden) begin();
    };
    setLines([]);
    setFault(null);
    begin();
    if (live) document.addEventListener("visibilitychange", turn);
    return () => {
      abort.abort();
      document.removeEventListener("visibilitychange", turn);
    };
  }, [path, live]);
  return /** @type {const} */ ([lines, fault]);
}

/**
 * Read the log by a stream, or again and again if other tabs have all streams, or a stream has ended
 * before its run.
 * @param {string} path @param {boolean} live @param {AbortSignal} abort
 * @param {(lines: Line[]) => void} onLines @param {(fault: Fault | null) => void} onFault
 */
async function follow(path, live, abort, onLines, onFault) {
  let known = 0;
  for (;;) {
    const lost = new AbortController();
    const release = live ? await takeStream(() => lost.abort()) : null;
    const ends = AbortSignal.any([abort, lost.signal]);
    let more = live;
    try {
      let number = 0;
      /** @type {Line[]} */
      let all = [];
      const body = await logOf(path + (release ? "?follow=true" : ""), ends);
      onFault(null); // The log may have no line yet.
      for await (const lines of linesOf(body)) {
        all = [...all, ...lines.map((text) => line(text, (number += 1)))].slice(-MOST_LINES);
        if (number >= known) onLines(all); // What is read again does not shrink on the screen.
        known = Math.max(known, number);
        await sleep(50);
      }
    } catch (fault) {
      if (abort.aborted) return;
      if (!lost.signal.aborted) {
        onFault(/** @type {Fault} */ (fault));
        more = passing(/** @type {Fault} */ (fault));
      }
    } finally {
      release?.();
    }
    if (!more) return;
    await sleep(POLL_MS);
    if (abort.aborted) return;
  }
}

/** @param {string} path @param {AbortSignal} abort @returns {Promise<ReadableStream<Uint8Array>>} */
async function logOf(path, abort) {
  const answer = await open("GET", path, { signal: abort });
  if (!answer.ok || !answer.body) throw fault(answer, await answer.text(), `GET ${path}`);
  return answer.body;
}

/** @param {string} text @param {number} number @returns {Line} */
function line(text, number) {
  const [, at = "", source = "", rest = text] = LINE.exec(text) ?? [];
  return { number, at, source, text: rest };
}

// -- The states around a node: where it stands, and what each offered verb leads to.

const RESTING = ["enroll", "manageable", "available", "active", "rescue"];

/** @param {{why: Json}} props */
export function Machine({ why }) {
  const state = why.provision_state;
  // A passing state stands behind the one in which its run has begun.
  const starts = VERBS.find((one) => one.target === why.run?.verb)?.from ?? [];
  const start = RESTING.findIndex((one) => starts.includes(one));
  const shown = RESTING.toSpliced(start < 0 ? RESTING.length : start + 1, 0, ...(RESTING.includes(state) ? [] : [state]));
  return html`<ol class="machine" aria-label="States">
      ${shown.map((one) => html`<li aria-current=${one === state ? "step" : undefined}>
        ${h(State, { state: one })}</li>`)}
    </ol>
    <ul class="machine" aria-label="Verbs">
      ${why.verbs.map((/** @type {Json} */ one) => one.refused ? "" : html`<li>
        <strong>${verb(one.target)}</strong> → ${one.leads_to}: ${VERB_HINTS[one.target]}</li>`)}
    </ul>`;
}
