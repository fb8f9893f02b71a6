/** Acts on the selected nodes: a batch, or one request for each where there is no batch. */
import { VERBS } from "../facts.js";
import { useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import * as fleet from "../state/nodes.js";
import { go, href, path, route } from "../state/route.js";
import { ask, key } from "../wire/api.js";
import { change } from "../wire/changes.js";
import { Fault } from "../wire/faults.js";
import { Curl, say } from "./copy.js";
import { ActForm, close, show } from "./dialog.js";
import { HoldForm } from "./holding.js";
import { Confirm } from "./plan.js";
import { html, Text } from "./text.js";
import { verb } from "./words.js";

/** More names than these become a filter with its count, so that the request stays readable. */
const NAMED = 50;
const AT_ONCE = 4;

/** @typedef {Record<string, any>} Json */

/** @param {{selected: Set<string>, shown: Json[], onClear: () => void}} props */
export function Bulk({ selected, shown, onClear }) {
  const nodes = [...selected].flatMap((uuid) => fleet.nodes.get(uuid) ?? []);
  const visible = shown.filter((node) => selected.has(node.uuid)).length;
  const hidden = selected.size - visible;
  return html`<div class="bulk" role="region" aria-label="Selected nodes">
    <span>${selected.size} selected${hidden ? `, ${hidden} of them hidden by the filter` : ""}</span>
    <button onClick=${() => openBatch(nodes)}>Batch…</button>
    <button onClick=${() => openBatch(nodes, "power")}>Power…</button>
    <button onClick=${() => show(() => h(Holding, { nodes }))}>Hold…</button>
    <button onClick=${() => show(() => h(Maintaining, { nodes }))}>Maintenance…</button>
    ${h(Curl, { path: `/v1/nodes?uuid=${[...selected].slice(0, 150).join(",")}`, label: "curl" })}
    <button class="quiet" onClick=${onClear}>Clear <kbd>Esc</kbd></button>
  </div>`;
}

/** @param {Json[]} nodes @param {"verb" | "power"} [what] */
export function openBatch(nodes, what = "verb") {
  show(() => h(BatchDialog, { nodes, what }));
}

const WAVES = /** @type {Record<string, (number | string)[]>} */ ({
  "all at once": ["100%"],
  "one, then all": [1, "100%"],
  "one, 10 %, all": [1, "10%", "100%"],
});
const POWERS = ["power on", "power off", "soft power off", "rebooting", "soft rebooting"];

/** @param {Json[]} nodes @returns {{nodes: unknown, expect?: number}} */
function targets(nodes) {
  const names = nodes.map((node) => node.name ?? node.uuid);
  const filter = Object.fromEntries(route.value.query);
  if (names.length <= NAMED || !Object.keys(filter).length) return { nodes: names };
  return { nodes: filter, expect: nodes.length };
}

/** @param {{nodes: Json[], what: "verb" | "power"}} props */
function BatchDialog({ nodes, what }) {
  const offered = what === "power" ? POWERS : verbsOf(nodes);
  const [target, setTarget] = useState(offered[0] ?? "manage");
  const [steps, setSteps] = useState("");
  const [waves, setWaves] = useState(nodes.length > 1 ? "one, then all" : "all at once");
  const [concurrency, setConcurrency] = useState(8);
  const [budget, setBudget] = useState(0);
  const [name, setName] = useState("");
  const [plan, setPlan] = useState(/** @type {Json | null} */ (null));
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const [sure, setSure] = useState(false);
  const once = useRef(key());
  const list = parsed(steps);
  const body = {
    ...targets(nodes),
    request: what === "power" ? { power: target } : { target, ...listOf(target, list) },
    waves: WAVES[waves], concurrency, max_failures: budget, ...(name ? { name } : {}),
  };
  const text = JSON.stringify(body);
  const [planned, setPlanned] = useState("");
  const look = () =>
    ask("POST", "/v1/batches?plan=true", { body, accepts: [422] }).then(
      (answer) => [setPlan(answer.body), setPlanned(text), setFault(null)],
      (error) => [setPlan(null), setFault(error)],
    );
  const start = () =>
    change({ method: "POST", path: "/v1/batches", body, key: once.current }).then(
      (answer) => {
        close();
        say(`The batch of ${nodes.length} nodes has begun.`);
        go(href(path("batches", answer.body.uuid)));
      },
      (error) => {
        once.current = key();
        setFault(error);
      },
    );
  const fresh = plan && planned === text;
  const act = {
    title: `Batch of ${nodes.length} node${nodes.length > 1 ? "s" : ""}`, fault, ready: sure, send: start,
    request: { method: "POST", path: "/v1/batches", body },
    button: fresh ? `${verb(target)} ${nodes.length} nodes` : "",
    more: html`<button type="button" onClick=${() => void look()}>Plan</button>`,
  };
  return h(ActForm, act, html`
    <div class="form-grid">
      ${select("Request", target, setTarget, offered, what === "power" ? (one) => one : verb)}
      ${select("Waves", waves, setWaves, Object.keys(WAVES), (one) => one)}
      <label
        >Name (optional)
        <input onInput=${(/** @type {any} */ event) => setName(event.target.value)}
      /></label>
      ${number("At the same time", concurrency, setConcurrency, 1)}
      ${number("Failures allowed", budget, setBudget, 0)}
    </div>
    ${["clean", "service"].includes(target) &&
    html`<label class="block"
      >Steps, as JSON
      <textarea rows="3" spellcheck="false" onInput=${(/** @type {any} */ event) => setSteps(event.target.value)} />
      ${steps && list === null && html`<span class="wrong">This is not JSON.</span>`}
    </label>`}
    ${fresh && h(BatchPlan, { plan })}
    ${fresh && h(Confirm, {
      kind: "name", name: String(nodes.length), what: "number of nodes", on: "these nodes",
      onSure: setSure,
    })}`);
}

/** @param {string} target @param {unknown} list */
function listOf(target, list) {
  if (!list) return {};
  return { [target === "service" ? "service_steps" : "clean_steps"]: list };
}

/** @param {string} text @returns {any} null if it is no JSON */
function parsed(text) {
  try {
    return text.trim() ? JSON.parse(text) : undefined;
  } catch {
    return null;
  }
}

/** @param {Json[]} nodes @returns {string[]} verbs that some of these states offer */
function verbsOf(nodes) {
  const states = new Set(nodes.map((node) => node.provision_state));
  const from = VERBS.filter((one) => one.from.some((state) => states.has(state)));
  return [...new Set(from.map((one) => one.target))];
}

/**
 * @param {string} label @param {string} value @param {(value: string) => void} onChange
 * @param {string[]} choices @param {(choice: string) => string} word
 */
function select(label, value, onChange, choices, word) {
  return html`<label
    >${label}
    <select value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
      ${choices.map((one) => html`<option value=${one} selected=${one === value}>${word(one)}</option>`)}
    </select>
  </label>`;
}

/**
 * @param {string} label @param {number} value @param {(value: number) => void} onChange
 * @param {number} least
 */
function number(label, value, onChange, least) {
  return html`<label
    >${label}
    <input
      type="number"
      min=${least}
      value=${value}
      onInput=${(/** @type {any} */ event) => onChange(Number(event.target.value))}
    />
  </label>`;
}

/** @param {{plan: Json}} props */
function BatchPlan({ plan }) {
  const { waves, concurrency, failures_left: left } = plan;
  return html`<p role="status">
    ${waves.length > 1 ? `Waves of ${waves.join(", ")} nodes` : `One wave of ${waves[0]} nodes`},
    ${" "}${concurrency} at the same time. More than ${left} failures pause the batch.
  </p>`;
}

/**
 * Send one request for each node, four at a time; show each result.
 * @param {Json[]} nodes
 * @param {(node: Json) => {method: string, path: string, body?: unknown}} request
 */
function useEach(nodes, request) {
  const [results, setResults] = useState(/** @type {Map<string, string>} */ (new Map()));
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    const queue = [...nodes];
    /** @type {Map<string, string>} */
    const found = new Map();
    const worker = async () => {
      for (let node = queue.shift(); node; node = queue.shift()) {
        const result = await change(request(node)).then(() => "done", (error) => error.message);
        found.set(node.uuid, result);
        setResults(new Map(found));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    setBusy(false);
    say(`${[...found.values()].filter((one) => one === "done").length} of ${nodes.length} done.`);
  };
  return { results, busy, run };
}

/** @param {{nodes: Json[], results: Map<string, string>}} props */
function Results({ nodes, results }) {
  if (!results.size) return null;
  const faults = nodes.filter((node) => (results.get(node.uuid) ?? "done") !== "done");
  return html`<p>${results.size} of ${nodes.length} answered, ${faults.length} refused.</p>
    <ul>
      ${faults.map(
        (node) => html`<li class="wrong">
          ${h(Text, { of: node.name ?? node.uuid })}: ${h(Text, { of: results.get(node.uuid) })}
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
    title: `Maintenance of ${nodes.length} nodes`, ready: !each.busy, send: each.run,
    button: `Set maintenance ${on ? "on" : "off"}`,
  };
  return h(ActForm, act, html`
    ${select("Maintenance", on ? "on" : "off", (value) => setOn(value === "on"), ["on", "off"], String)}
    <label class="block"
      >Reason <input onInput=${(/** @type {any} */ event) => setReason(event.target.value)}
    /></label>
    ${h(Results, { nodes, results: each.results })}`);
}

/** @param {{nodes: Json[]}} props */
function Holding({ nodes }) {
  const [body, setBody] = useState(/** @type {Json} */ ({ kind: "hardware", reason: "" }));
  const each = useEach(nodes, (node) => ({
    method: "POST", path: path("nodes", node.uuid, "holds"), body,
  }));
  const title = `Hold ${nodes.length} nodes`;
  const act = { title, button: title, ready: !each.busy && !!body.reason, send: each.run };
  return h(ActForm, act, html`${h(HoldForm, { body, onChange: setBody })}
    ${h(Results, { nodes, results: each.results })}`);
}
