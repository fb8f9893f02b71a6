/** Acts on the selected nodes: a batch, or one request for each where there is no batch. */
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { POWER_ACTS } from "./actions.js";
import { ActForm, show, useSend } from "./dialog.js";
import { HoldForm, NEW_HOLD } from "./holds.js";
import { Confirm, confirmation, HALF, Plan, tellEnd, verbsFrom } from "./plan.js";
import { missing, StepsField } from "./steps.js";
import {
  bdi, choice, Curl, erases, field, html, nameOf, many, say, told, typed, verb, VERB_HINTS,
} from "./text.js";
import { fleet, predicate, remote, selectedNodes, selection, selectNone } from "../state/nodes.js";
import { go, href, path, route } from "../state/route.js";
import { ask, Fault, key, sendChange } from "../wire/api.js";

/** @typedef {Record<string, any>} Json */

/** What is typed to confirm a batch. */
export const NUMBER = "number of nodes";

/** More names than these become a filter with its count, so that the request stays readable. */
const NAMED = 50;
const REQUESTS_AT_ONCE = 4;

/** Acts on many nodes. @type {Record<string, (nodes: Json[]) => void>} */
export const BULK = {
  Batch: (nodes) => openBatch(nodes),
  Power: (nodes) => openBatch(nodes, POWERS),
  Hold: (nodes) => show(() => h(Holding, { nodes })),
  Maintenance: (nodes) => show(() => h(Maintaining, { nodes })),
};

/** @param {{shown: Json[]}} props */
export function Bulk({ shown }) {
  const selected = selection.value;
  if (!selected.size) return html`<p class="bulk">Select nodes to act on many of them.</p>`;
  const visible = shown.filter((node) => selected.has(node.uuid)).length;
  const hidden = selected.size - visible;
  return html`<div class="bulk" role="region" aria-label="Selected nodes">
    <span>${selected.size} selected${hidden ? `, ${hidden} of them hidden by the filter` : ""}</span>
    ${Object.entries(BULK).map(([name, act]) => html`<button onClick=${() => act(selectedNodes())}>${name}…</button>`)}
    ${h(Curl, { path: `/v1/nodes?uuid=${[...selected].slice(0, 150).join(",")}` })}
    <button class="quiet" onClick=${selectNone}>Clear <kbd>Esc</kbd></button>
  </div>`;
}

/** @param {Json[]} nodes */
function openBatch(nodes, offered = verbsFrom(new Set(nodes.map((node) => node.provision_state)))) {
  show(() => h(BatchDialog, { of: targets(nodes), nodes, count: nodes.length, offered, example: nodes[0]?.uuid }));
}

/**
 * Begin a batch with the nodes of another one that have this result.
 * @param {Json} batch @param {string} result @param {Json[]} shown some of its nodes @param {string} target
 */
export function openNext({ uuid, counts }, result, shown, target) {
  const of = { nodes: { batch: uuid, result }, expect: counts[result] };
  const nodes = shown.filter((one) => one.result === result);
  show(() => h(BatchDialog, {
    of, count: counts[result], names: nodes.map(nameOf), offered: [target], example: nodes[0]?.uuid,
  }));
}

/** @type {Record<string, (number | string)[]>} */
const WAVES = {
  "all at once": ["100%"],
  "canary: one, then all": [1, "100%"],
  "canary: one, 10 %, all": [1, "10%", "100%"],
};
const MOST_NAMES = 20;
/** @param {string[]} names */
const shortList = (names) => names.length ? `: ${names.slice(0, MOST_NAMES).join(", ")}${names.length > MOST_NAMES ? " …" : ""}` : "";
export const POWERS = POWER_ACTS.map(([target]) => target);

/** @param {Json[]} nodes @returns {{nodes: unknown, expect?: number}} */
function targets(nodes) {
  const names = nodes.map(nameOf);
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
 *   nodes?: Json[], names?: string[], example?: string | undefined}} props `nodes`: those of which one can be
 *   the first; `example`: a node whose steps can be picked
 */
function BatchDialog({ of, count, offered, nodes = [], names = nodes.map(nameOf), example }) {
  const all = many(count);
  const title = `Batch of ${all}`;
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
  const body = {
    ...(canary ? { nodes: [canary, ...names.filter((one) => one !== canary)] } : of),
    request: POWERS.includes(target) ? { power: target } : { target, ...steps },
    waves: WAVES[waves], concurrency, max_failures: budget, ...(name && { name }),
  };
  const text = JSON.stringify(body);
  const [planned, setPlanned] = useState("");
  const look = async () => {
    try {
      const { body: found } = await ask("POST", "/v1/batches?plan=true", { body });
      // The API plans the steps of one node.
      const { uuid } = found.first_wave[0];
      const sample = erases(target) && uuid !== found.refused.first[0]?.uuid && await ask("POST", path("nodes", uuid, "plan"), { body: body.request, accepts: [422] }).catch(() => null);
      setPlan({ ...found, sample: sample && sample.body });
      setPlanned(text);
      setFault(null);
    } catch (error) {
      setPlan(null);
      setFault(/** @type {Fault} */ (error));
    }
  };
  useEffect(() => setFault(null), [text]);
  const first = !target ? "Choose a request." : missing(target, steps);
  const sending = useSend({ method: "POST", path: "/v1/batches", body }, (answer) => {
    const own = path("batches", answer.body.uuid);
    go(href(own));
    say(`The batch of ${all} has begun.`);
    void tellEnd(own, title);
  });
  const fresh = plan && planned === text;
  const used = nodes.filter((node) => node.provision_state === "active");
  const kind = confirmationOf(target, used.length > 0);
  const changes = kind === "name"
    ? `${target === "available" ? "Leaves" : plan?.sample && confirmation(plan.sample, "") === kind ? "Destroys" : "May destroy"} the data on ${all}${shortList(names)}.`
    : target === "abort" ? `Abort ends the runs of ${all}. ${HALF}` : `${verb(target)} interrupts the instances on ${many(used.length)}${shortList(used.map(nameOf))}.`;
  // A confirmation is of the plan that was read, not of the one that took its place.
  useLayoutEffect(() => setSure(false), [text, plan]);
  const act = {
    ...sending, fault: sending.fault ?? fault, ready: !!fresh && (kind === "none" || sure),
    title, danger: kind === "name", button: fresh ? `${verb(target)} ${all}` : "",
    more: html`<button type="button" disabled=${!!first} onClick=${() => look()}>Plan</button>`,
  };
  return h(ActForm, act, html`
    <div class="form-grid">
      ${choice("Request", target, (next) => (setTarget(next), setSteps({})), [["", "choose…"], ...offered.map((one) => [one, verb(one)])])}
      ${choice("Waves", waves, setWaves, Object.keys(WAVES))}
      ${nodes.length > 1 && waves.startsWith("canary") &&
      choice("Canary, goes first", canary, setCanary, [["", "the first of the list"], ...names])}
      ${field("Name (optional)", { onInput: typed(setName) })}
      ${number("At the same time", concurrency, setConcurrency, 1)}
      ${number("Failures allowed", budget, setBudget, 0)}
    </div>
    <p role="status">
      ${first} ${VERB_HINTS[target] && `${verb(target)} ${VERB_HINTS[target]}.`}
      ${offered.includes("manage") && !offered.includes("clean") && " To clean, use Manage first; the page of its batch then has the button Clean…"}
    </p>
    ${h(StepsField, { key: target, node: example, target, onChange: setSteps })}
    ${fresh && h(BatchPlan, { plan })}
    ${fresh && kind !== "none" && html`<p><strong>${bdi(changes)}</strong></p>`}
    ${fresh && h(Confirm, { key: plan, kind, name: String(count), what: NUMBER, on: all, onSure: setSure })}`);
}

/**
 * What a batch asks of the user: the API plans no steps of many nodes, so a verb that may erase disks
 * counts as one that does; anything else but power on may interrupt an instance, an abort an erase.
 * @param {string} target @param {boolean} used whether some nodes may have an instance
 * @returns {"name" | "tick" | "none"}
 */
export function confirmationOf(target, used) {
  if (erases(target) || target === "available") return "name";
  return target === "abort" || (used && target !== "power on") ? "tick" : "none";
}

/**
 * @param {string} label @param {number} value @param {(value: number) => void} put
 * @param {number} min
 */
const number = (label, value, put, min) =>
  field(label, { type: "number", min, value, onInput: typed((text) => put(Number(text))) });

/** @param {{plan: Json}} props */
function BatchPlan({ plan }) {
  const { waves, concurrency, failures_left: left, refused, first_wave: first, sample } = plan;
  return html`<p role="status">
    ${waves.length > 1
      ? html`<strong>${bdi(nameOf(first[0]))} goes first, alone</strong>, then ${[...waves.slice(1, -1), `the other ${waves.at(-1)}`].join(", then ")}`
      : many(waves[0])}, at most ${concurrency} at once.
    ${left ? ` The batch pauses after more than ${many(left, "failure")}.` : " The first failure pauses the batch."}
  </p>
    ${refused.count > 0 &&
    html`<p class="wrong">${refused.count} of them would refuse the request now:</p>
      <ul>
        ${refused.first.map(
          (/** @type {Json} */ one) => html`<li>
            ${bdi(nameOf(one))}: ${bdi(told(one.text, one))}
          </li>`,
        )}
      </ul>`}
    ${sample?.accepted && html`<p>On ${bdi(nameOf(first[0]))}:</p> ${h(Plan, { plan: sample })}`}`;
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
  const over = !busy && results.size && [...results.values()].every((one) => one === "done");
  return { results, busy, send: over ? undefined : run, request: copied };
}

/** @param {{nodes: Json[], results: Map<string, string>}} props */
function Results({ nodes, results }) {
  if (!results.size) return null;
  const faults = nodes.filter((node) => (results.get(node.uuid) ?? "done") !== "done");
  return html`<p>${results.size} of ${nodes.length} answered, ${faults.length} refused.</p>
    <ul>
      ${faults.map(
        (node) => html`<li class="wrong">
          ${bdi(nameOf(node))}: ${bdi(told(results.get(node.uuid), node))}
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
    ...each, title: `Maintenance of ${many(nodes.length)}`,
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
  const title = `Hold ${many(nodes.length)}`;
  const act = { ...each, title, button: title, ready: !!body.reason };
  return h(ActForm, act, html`${h(HoldForm, { body, onChange: setBody })}
    ${h(Results, { nodes, results: each.results })}`);
}
