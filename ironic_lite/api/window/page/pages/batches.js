/** Batches: the list, one batch with its waves and nodes, and acts on the selected nodes. */
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { VERBS } from "../facts.js";
import { Simple } from "../parts/actions.js";
import { ActForm, show, useSend } from "../parts/dialog.js";
import { HoldForm, NEW_HOLD } from "../parts/holds.js";
import { Confirm, tellEnd, verbsFrom } from "../parts/plan.js";
import { missing, StepsField } from "../parts/steps.js";
import { FaultBox, List, Shown, Skeleton, useDocument } from "../parts/read.js";
import {
  batchTitle, bdi, choice, Curl, field, html, link, nodeLink, Result, say, stamp, stepName, told, typed,
  verb, VERB_HINTS,
} from "../parts/text.js";
import { fleet, predicate, remote } from "../state/nodes.js";
import { clockTime, go, href, path, prefs, route } from "../state/route.js";
import { ask, Fault, key, sendChange } from "../wire/api.js";

/** @typedef {Record<string, any>} Json */

const BATCH_MS = 2000;
const FIELDS_OF_BATCH =
  "uuid,name,state,wave,waves,counts,requester,created_at,ended_at,request";
const ENDED = ["done", "aborted"];

export function BatchesPage() {
  if (route.value.parts[1]) return h(Batch, { key: route.value.parts[1] });
  const draw = (/** @type {Json} */ body) =>
    h(List, {
      label: "Batches",
      head: ["Batch", "Request", "State", "Wave", "Nodes", "By", "Made", "Ended"],
      rows: body.batches.map((/** @type {Json} */ one) => [
        link(path("batches", one.uuid), batchTitle(one)), asks(one.request),
        h(Result, { result: one.state }), `${one.wave + 1} of ${one.waves.length}`, counted(one.counts),
        one.requester, stamp(one.created_at), stamp(one.ended_at),
      ]),
    });
  return html`<h1>Batches</h1>
    <p>Select nodes on the page Fleet, then press Batch.</p>
    ${h(Shown, { path: `/v1/batches?limit=200&fields=${FIELDS_OF_BATCH}`, draw })}`;
}

/** @param {Json} request @returns {string} what a batch asks of each node */
function asks({ power, target, ...more }) {
  const lists = Object.values(more).filter(Array.isArray).flat();
  const names = lists.filter((one) => one?.step).map(stepName);
  return [power ?? verb(target ?? ""), more.runbook, ...names].filter(Boolean).join(", ");
}

/** @param {Json} counts */
const counted = (counts) =>
  Object.entries(counts)
    .filter(([, count]) => count)
    .map(([name, count]) => `${count} ${name === "pending" ? "wait" : name}`)
    .join(", ");

function Batch() {
  const own = path("batches", route.value.parts[1] ?? "");
  const { body, fault, reload } = useDocument(own, { each: BATCH_MS });
  if (fault) return h(FaultBox, { fault, path: own });
  if (!body) return h(Skeleton, {});
  const failed = body.counts.failed + body.counts.refused;
  return html`<header class="node-head">
      <h1>${bdi(batchTitle(body))}</h1>
      ${h(Result, { result: body.state })} ${body.request && html`<span>${bdi(asks(body.request))}</span>`}
      <span>wave ${body.wave + 1} of ${body.waves.length}</span>
      <span>${counted(body.counts)}</span> ${h(Curl, { path: `${own}?wait=50&until=done` })}
    </header>
    ${body.paused_by && html`<p class="says">Paused: ${bdi(body.paused_by)}. ${body.counts.pending} nodes wait until you resume or abort it.</p>`}
    ${!ENDED.includes(body.state) && h(Controls, { own, batch: body, reload })} ${h(Waves, { own, batch: body, failed })}
    <p>
      ${failed} failed or refused; ${body.failures_left} more are allowed.
      ${body.eta && ` ~${clockTime(body.eta.ends_at ?? body.eta, prefs.value.utc)}`}
    </p>
    ${h(BatchNodes, { own, batch: body })}`;
}

/** @param {{own: string, batch: Json, reload: () => void}} props */
function Controls({ own, batch, reload }) {
  /** @param {string} label @param {Json} body @param {string} kind */
  const act = (label, body, kind) => () =>
    show(() =>
      h(Simple, /** @type {any} */ ({
        title: `${label} this batch`, kind, method: "PUT", path: `${own}/state`, body, of: own,
        button: label, reload,
      })),
    );
  return html`<div class="actions">
    ${batch.state === "running"
      ? html`<button onClick=${act("Pause", { target: "pause" }, "none")}>Pause…</button>`
      : html`<button onClick=${act("Resume", { target: "resume" }, "none")}>Resume…</button>`}
    <button onClick=${act("Abort", { target: "abort" }, "tick")}>Abort…</button>
    <button onClick=${act("Abort with its runs", { target: "abort", runs: "abort" }, "tick")}>
      Abort with its runs…
    </button>
  </div>`;
}

/** @param {{own: string, batch: Json, failed: number}} props */
function Waves({ own, batch, failed }) {
  const list = `${own}/nodes?result=failed,refused&limit=500&fields=wave`;
  const bad = useDocument(failed ? list : null, { again: failed }).body?.nodes ?? [];
  const all = batch.waves.reduce((/** @type {number} */ sum, /** @type {number} */ one) => sum + one, 0);
  const over = all - (batch.counts.pending + batch.counts.starting + batch.counts.running || 0);
  let before = 0;
  return html`<ol class="waves">
    ${batch.waves.map((/** @type {number} */ size, /** @type {number} */ at) => {
      const done = Math.max(0, Math.min(size, over - before));
      before += size;
      const wrong = bad.filter((/** @type {Json} */ one) => one.wave === at).length;
      return html`<li class=${wrong ? "wrong" : ""} aria-current=${at === batch.wave ? "step" : undefined}>
        wave ${at + 1} <progress aria-label=${`wave ${at + 1}`} max=${size} value=${done} /> ${done}/${size}${wrong ? ` ▲ ${wrong} failed` : ""}
      </li>`;
    })}
  </ol>`;
}

/** @param {{own: string, batch: Json}} props */
function BatchNodes({ own, batch }) {
  const result = route.value.query.get("result") ?? "";
  const list = `${own}/nodes?limit=500${result ? `&result=${encodeURIComponent(result)}` : ""}`;
  const draw = (/** @type {Json} */ body) => html`<div class="filters">
      ${["", ...Object.keys(batch.counts).filter((name) => batch.counts[name] || name === result)].map(
        (name) => html`<a
          class="button"
          aria-current=${name === result ? "true" : undefined}
          href=${href(own, name ? { result: name } : {})}
          >${name || "all"} ${name ? batch.counts[name] : ""}</a
        >`,
      )}
      ${batch.counts.failed > 0 &&
      html`<button onClick=${() => openRetry(batch.uuid, batch.counts.failed)}>Retry the failed…</button>`}
    </div>
    ${h(List, {
      label: "Nodes of the batch",
      head: ["Node", "Wave", "Result", "Error", "Begun", "Ended", "Run"],
      rows: body.nodes.map((/** @type {Json} */ one) => row(one)),
    })}`;
  return h(Shown, { path: list, again: JSON.stringify(batch.counts), draw });
}

/** @param {Json} one */
const row = (one) => [
  nodeLink(one),
  one.wave + 1, h(Result, { result: one.result }), told(one.error?.text ?? one.error),
  stamp(one.started_at), stamp(one.ended_at),
  one.run && link(path("nodes", one.uuid, "runs", one.run), "run"),
];

// -- Acts on the selected nodes: a batch, or one request for each where there is no batch.

/** More names than these become a filter with its count, so that the request stays readable. */
const NAMED = 50;
const REQUESTS_AT_ONCE = 4;

/** @param {{selected: Set<string>, shown: Json[], onClear: () => void}} props */
export function Bulk({ selected, shown, onClear }) {
  if (!selected.size) return html`<p class="bulk">Select nodes to act on many of them.</p>`;
  const nodes = [...selected].flatMap((uuid) => fleet.nodes.get(uuid) ?? []);
  const visible = shown.filter((node) => selected.has(node.uuid)).length;
  const hidden = selected.size - visible;
  return html`<div class="bulk" role="region" aria-label="Selected nodes">
    <span>${selected.size} selected${hidden ? `, ${hidden} of them hidden by the filter` : ""}</span>
    <button onClick=${() => openBatch(nodes)}>Batch…</button>
    <button onClick=${() => openBatch(nodes, POWERS)}>Power…</button>
    <button onClick=${() => show(() => h(Holding, { nodes }))}>Hold…</button>
    <button onClick=${() => show(() => h(Maintaining, { nodes }))}>Maintenance…</button>
    ${h(Curl, { path: `/v1/nodes?uuid=${[...selected].slice(0, 150).join(",")}`, label: "curl" })}
    <button class="quiet" onClick=${onClear}>Clear <kbd>Esc</kbd></button>
  </div>`;
}

/** @param {Json[]} nodes */
function openBatch(nodes, offered = verbsFrom(new Set(nodes.map((node) => node.provision_state)))) {
  show(() => h(BatchDialog, { of: targets(nodes), nodes, count: nodes.length, offered, example: nodes[0]?.uuid }));
}

/** Retry the failed nodes of a batch. @param {string} batch @param {number} count as many failed */
export function openRetry(batch, count) {
  const of = { nodes: { batch, result: "failed" }, expect: count };
  show(() => h(BatchDialog, { of, count, offered: ["retry"] }));
}

const WAVES = /** @type {Record<string, (number | string)[]>} */ ({
  "all at once": ["100%"],
  "canary: one, then all": [1, "100%"],
  "canary: one, 10 %, all": [1, "10%", "100%"],
});
const POWERS = ["power on", "power off", "soft power off", "rebooting", "soft rebooting"];

/** @param {Json[]} nodes @returns {{nodes: unknown, expect?: number}} */
function targets(nodes) {
  const names = nodes.map((node) => node.name ?? node.uuid);
  const { parts, query } = route.value;
  const whole = parts.length === 1 && query.size > 0 && !remote(query).length;
  if (names.length <= NAMED || !whole) return { nodes: names };
  // The filter stands for the nodes only if it gives these and no other.
  const chosen = new Set(nodes.map((node) => node.uuid));
  const given = [...fleet.nodes.values()].filter(predicate(query, ""));
  const same = given.length === chosen.size && given.every((node) => chosen.has(node.uuid));
  return same ? { nodes: Object.fromEntries(query), expect: given.length } : { nodes: names };
}

/**
 * @param {{of: {nodes: unknown, expect?: number}, count: number, offered: string[],
 *   nodes?: Json[], example?: string | undefined}} props `nodes`: those of which one can be the first;
 *   `example`: a node whose steps can be picked
 */
function BatchDialog({ of, count, offered, nodes = [], example }) {
  const [target, setTarget] = useState(offered.length === 1 ? offered[0] ?? "" : "");
  const [steps, setSteps] = useState(/** @type {Json} */ ({}));
  const [waves, setWaves] = useState(count > 1 ? "canary: one, then all" : "all at once");
  const [concurrency, setConcurrency] = useState(8);
  const [budget, setBudget] = useState(0);
  const [name, setName] = useState("");
  const [canary, setCanary] = useState("");
  const [plan, setPlan] = useState(/** @type {Json | null} */ (null));
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const [sure, setSure] = useState(false);
  /** @param {string} next */
  const choose = (next) => {
    setTarget(next);
    setSteps({});
  };
  const names = nodes.map((node) => node.name ?? node.uuid);
  const body = {
    ...(canary ? { nodes: [canary, ...names.filter((one) => one !== canary)] } : of),
    request: POWERS.includes(target) ? { power: target } : { target, ...steps },
    waves: WAVES[waves], concurrency, max_failures: budget, ...(name ? { name } : {}),
  };
  const text = JSON.stringify(body);
  const [planned, setPlanned] = useState("");
  const look = () =>
    ask("POST", "/v1/batches?plan=true", { body, accepts: [422] }).then(
      (answer) => [setPlan(answer.body), setPlanned(text), setFault(null)],
      (error) => [setPlan(null), setFault(error)],
    );
  useEffect(() => setFault(null), [text]);
  const first = !target ? "Choose a request." : missing(target, steps);
  const sending = useSend({ method: "POST", path: "/v1/batches", body }, (answer) => {
    say(`The batch of ${count} nodes has begun.`);
    const own = path("batches", answer.body.uuid);
    go(href(own));
    void tellEnd(own, `Batch of ${count} nodes`);
  });
  const fresh = plan && planned === text;
  const kind = confirmationOf(target, nodes);
  // A confirmation is of the plan that was read, not of the one that took its place.
  useLayoutEffect(() => setSure(false), [text, plan]);
  const act = {
    ...sending, fault: sending.fault ?? fault, ready: !!fresh && (kind === "none" || sure),
    title: `Batch of ${count} node${count > 1 ? "s" : ""}`,
    button: fresh ? `${verb(target)} ${count} nodes` : "",
    more: html`<button type="button" disabled=${!!first} onClick=${() => void look()}>Plan</button>`,
  };
  return h(ActForm, act, html`
    <div class="form-grid">
      ${choice("Request", target, choose, [["", "choose…"], ...offered.map((one) => [one, verb(one)])])}
      ${choice("Waves", waves, setWaves, Object.keys(WAVES))}
      ${nodes.length > 1 && waves.startsWith("canary") &&
      choice("Canary, goes first", canary, setCanary, [["", "the first of the list"], ...names])}
      ${field("Name (optional)", { onInput: typed(setName) })}
      ${number("At the same time", concurrency, setConcurrency, 1)}
      ${number("Failures allowed", budget, setBudget, 0)}
    </div>
    <p role="status">
      ${first} ${VERB_HINTS[target] && `${verb(target)} ${VERB_HINTS[target]}.`}
      ${offered.includes("manage") && !offered.includes("clean") && " Cleaning needs the state manageable: use Manage first."}
    </p>
    ${h(StepsField, { key: target, node: example, target, onChange: setSteps })}
    ${fresh && h(BatchPlan, { plan })}
    ${fresh && h(Confirm, {
      key: plan, kind, name: String(count), what: "number of nodes", on: "these nodes",
      onSure: setSure,
    })}`);
}

/**
 * What a batch asks of the user: the API plans no steps of many nodes, so a verb that may erase disks
 * counts as one that does; anything else but power on may interrupt an instance.
 * @param {string} target @param {Json[]} nodes @returns {"name" | "tick" | "none"}
 */
function confirmationOf(target, nodes) {
  if (VERBS.some((one) => one.target === target && one.erases)) return "name";
  const active = nodes.some((node) => node.provision_state === "active");
  return active && target !== "power on" ? "tick" : "none";
}

/**
 * @param {string} label @param {number} value @param {(value: number) => void} put
 * @param {number} min
 */
const number = (label, value, put, min) =>
  field(label, { type: "number", min, value, onInput: typed((text) => put(Number(text))) });

/** @param {{plan: Json}} props */
function BatchPlan({ plan }) {
  const { waves, concurrency, failures_left: left, refused, first_wave: first } = plan;
  return html`<p role="status">
    ${waves.length > 1 && waves[0] === 1
      ? html`<strong>${bdi(first[0]?.name ?? first[0]?.uuid)} goes first, alone</strong>, then ${waves.slice(1).join(", then ")} nodes`
      : waves.length > 1 ? `First ${waves.join(", then ")} nodes` : `All ${waves[0]} nodes at once`}, ${concurrency} at the same time.
    ${left ? ` More than ${left} failures pause the batch.` : " The first failure pauses the batch."}
  </p>
    ${refused.count > 0 &&
    html`<p class="wrong">${refused.count} of them would refuse the request now:</p>
      <ul>
        ${refused.first.map(
          (/** @type {Json} */ one) => html`<li>
            ${bdi(one.name ?? one.uuid)}: ${bdi(told(one.text))}
          </li>`,
        )}
      </ul>`}`;
}

/**
 * Send one request for each node, four at a time; show each result.
 * @param {Json[]} nodes
 * @param {(node: Json) => {method: string, path: string, body?: unknown}} request
 */
function useEach(nodes, request) {
  const [results, setResults] = useState(/** @type {Map<string, string>} */ (new Map()));
  const [busy, setBusy] = useState(false);
  /** Keys by their request; a refused one gets another. */
  const keys = useRef(/** @type {Map<string, string>} */ (new Map()));
  const run = async () => {
    setBusy(true);
    const queue = [...nodes];
    /** @type {Map<string, string>} */
    const found = new Map();
    const worker = async () => {
      for (let node = queue.shift(); node; node = queue.shift()) {
        const asked = request(node);
        const text = JSON.stringify(asked);
        const once = keys.current.get(text) ?? key();
        keys.current.set(text, once);
        const result = await sendChange({ ...asked, key: once }).then(() => "done", (error) => {
          if (error.status) keys.current.delete(text);
          return error.message;
        });
        found.set(node.uuid, result);
        setResults(new Map(found));
      }
    };
    await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, worker));
    setBusy(false);
    say(`${[...found.values()].filter((one) => one === "done").length} of ${nodes.length} done.`);
  };
  const shown = request({ uuid: "{node}" });
  const copied = { ...shown, path: decodeURIComponent(shown.path), each: nodes.map((node) => node.uuid) };
  return { results, busy, run, request: copied };
}

/** @param {{nodes: Json[], results: Map<string, string>}} props */
function Results({ nodes, results }) {
  if (!results.size) return null;
  const faults = nodes.filter((node) => (results.get(node.uuid) ?? "done") !== "done");
  return html`<p>${results.size} of ${nodes.length} answered, ${faults.length} refused.</p>
    <ul>
      ${faults.map(
        (node) => html`<li class="wrong">
          ${bdi(node.name ?? node.uuid)}: ${bdi(told(results.get(node.uuid)))}
        </li>`,
      )}
    </ul>`;
}

/** @param {{nodes: Json[]}} props */
function Maintaining({ nodes }) {
  const [reason, setReason] = useState("");
  const [on, setOn] = useState(true);
  const each = useEach(nodes, (node) => ({
    method: on ? "PUT" : "DELETE",
    path: path("nodes", node.uuid, "maintenance"),
    ...(on ? { body: { reason } } : {}),
  }));
  const act = {
    title: `Maintenance of ${nodes.length} nodes`, busy: each.busy, send: each.run, request: each.request,
    button: `Set maintenance ${on ? "on" : "off"}`,
  };
  return h(ActForm, act, html`
    ${choice("Maintenance", on ? "on" : "off", (value) => setOn(value === "on"), ["on", "off"])}
    ${field("Reason", { class: "block", onInput: typed(setReason) })}
    ${h(Results, { nodes, results: each.results })}`);
}

/** @param {{nodes: Json[]}} props */
function Holding({ nodes }) {
  const [body, setBody] = useState(/** @type {Json} */ (NEW_HOLD));
  const each = useEach(nodes, (node) => ({
    method: "POST", path: path("nodes", node.uuid, "holds"), body,
  }));
  const title = `Hold ${nodes.length} nodes`;
  const { busy, run, request } = each;
  const act = { title, button: title, ready: !!body.reason, busy, send: run, request };
  return h(ActForm, act, html`${h(HoldForm, { body, onChange: setBody })}
    ${h(Results, { nodes, results: each.results })}`);
}
