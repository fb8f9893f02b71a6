/** The dialog of a verb: its plan first, then a confirmation that fits what it destroys. */
import { STATES } from "../facts.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { duration } from "../state/clock.js";
import { go, href, path } from "../state/route.js";
import { ask, key } from "../wire/api.js";
import { change, monitor } from "../wire/changes.js";
import { Fault } from "../wire/faults.js";
import { say } from "./copy.js";
import { ActForm, close, show } from "./dialog.js";
import { Skeleton } from "./read.js";
import { html, Text } from "./text.js";
import { DESTROYS, verb } from "./words.js";

/** @typedef {Record<string, any>} Json */

/**
 * Open the dialog of a verb.
 * @param {Json} node with `uuid`, `name`, `provision_state`
 * @param {string} target
 */
export function openVerb(node, target) {
  show(() => h(VerbDialog, { node, target }));
}

/** What a plan asks of the user before the button works: `name`, `tick` or `none`. */
export function confirmation(/** @type {Json | null} */ plan, /** @type {string} */ state) {
  if (plan === null) return "name";
  const effects = plan.steps.flatMap((/** @type {Json} */ step) => step.destroys ?? ["data"]);
  const all = new Set([...(plan.destroys ?? ["data"]), ...effects]);
  if (all.has("data") || all.has("volumes")) return "name";
  if (all.size || (plan.restarts && state === "active")) return "tick";
  return "none";
}

/** @param {{node: Json, target: string}} props */
function VerbDialog({ node, target }) {
  const [options, setOptions] = useState(/** @type {Json} */ ({}));
  const plan = usePlan(node, { target, ...options });
  const [sure, setSure] = useState(false);
  // A confirmation is of the plan that was read, not of the one that took its place.
  useEffect(() => setSure(false), [plan.count]);
  const sending = useSending(node, { target, ...options }, plan);
  const name = node.name ?? node.uuid;
  const kind = plan.body ? confirmation(plan.body, node.provision_state) : null;
  const ready = plan.body?.accepted && !sending.busy && (kind === "none" || sure);
  const act = {
    title: `${verb(target)} ${name}`, note: plan.tag && `plan with tag ${plan.tag}`,
    fault: sending.fault ?? plan.fault, ready, send: sending.send,
    button: plan.body?.accepted && `${verb(target)} ${name}`,
    request: {
      method: "PUT", path: path("nodes", name, "states", "provision"),
      body: { target, ...options }, headers: sending.headers,
    },
  };
  return h(ActForm, act, html`
    ${h(Arguments, { target, onChange: setOptions })}
    ${!plan.body && !plan.fault && h(Skeleton, { rows: 3 })}
    ${plan.body && h(Plan, { plan: plan.body })}
    ${plan.body?.accepted && h(Confirm, { kind, name, onSure: setSure, key: plan.count })}
    ${sending.note && html`<p role="status">${sending.note}</p>`}`);
}

/** @param {Json} node @param {Json} body */
function usePlan(node, body) {
  const none = { body: null, tag: "", fault: null, count: 0, text: "" };
  const [state, setState] = useState(/** @type {any} */ (none));
  const [turn, setTurn] = useState(0);
  const text = JSON.stringify(body);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      ask("POST", path("nodes", node.uuid, "plan"), {
        body: JSON.parse(text), accepts: [422], signal: abort.signal,
      }).then(
        ({ body: found, tag }) =>
          setState((/** @type {any} */ old) => ({ body: found, tag, fault: null, count: old.count + 1, text })),
        (fault) => !abort.signal.aborted && setState({ ...none, fault, text }),
      );
    }, 150);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, turn]);
  // The plan of an earlier request is not shown beside the button of this one.
  const shown = state.text === text ? state : { ...none, count: state.count };
  return { ...shown, again: () => setTurn((last) => last + 1) };
}

/** @param {Json} node @param {Json} body @param {any} plan */
function useSending(node, body, plan) {
  const once = useRef(key());
  const [state, setState] = useState(/** @type {any} */ ({ busy: false, fault: null, note: "" }));
  const headers = /** @type {Record<string, string>} */ ({ "Idempotency-Key": once.current });
  if (plan.tag) headers["If-Match"] = plan.tag;
  const send = async () => {
    setState({ busy: true, fault: null, note: "" });
    try {
      const answer = await change({
        method: "PUT", path: path("nodes", node.uuid, "states", "provision"), body,
        tag: plan.tag, key: once.current,
        onWait: (seconds) => setState({ busy: true, fault: null, note: waits(seconds) }),
      });
      say(`${verb(body.target)} of ${node.name ?? node.uuid} has begun.`);
      close();
      const run = monitor(answer.link);
      if (run) go(href(run));
    } catch (error) {
      const fault = /** @type {Fault} */ (error);
      if (fault.status === 412) plan.again();
      once.current = key();
      const note = fault.status === 412 ? "The node has changed: this is the new plan." : "";
      setState({ busy: false, fault: fault.status === 412 ? null : fault, note });
    }
  };
  return { ...state, send, headers };
}

/** @param {number} seconds */
const waits = (seconds) => `The node is locked, or the service is busy. Again in ${seconds} s.`;

/** Arguments that a verb takes beside its target. @param {any} props */
function Arguments({ target, onChange }) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const name = { clean: "clean_steps", service: "service_steps" }[/** @type {"clean"} */ (target)];
  if (target === "rescue") return h(Password, { onChange });
  if (!name) return null;
  const read = /** @param {Event} event */ (event) => {
    const value = /** @type {HTMLTextAreaElement} */ (event.target).value;
    setText(value);
    try {
      onChange(value.trim() ? { [name]: JSON.parse(value) } : {});
      setWrong("");
    } catch (error) {
      setWrong(String(error));
    }
  };
  return html`<label class="block"
    >Steps, as JSON
    <textarea
      rows="4"
      spellcheck="false"
      placeholder='[{"interface": "deploy", "step": "erase_devices"}]'
      value=${text}
      onInput=${read}
    />
    ${wrong && html`<span class="wrong" role="alert">${wrong}</span>`}
  </label>`;
}

/** @param {{onChange: (body: Json) => void}} props */
function Password({ onChange }) {
  return html`<label class="block"
    >Password of the rescue ramdisk
    <input
      type="password"
      autocomplete="new-password"
      onInput=${(/** @type {any} */ event) => onChange({ rescue_password: event.target.value })}
    />
  </label>`;
}

/** @param {{plan: Json}} props */
export function Plan({ plan }) {
  const goes = STATES[plan.leads_to] ? `leads to ${plan.leads_to}` : "";
  const facts = [
    plan.seconds && `${duration(plan.seconds.p50)} – ${duration(plan.seconds.p90)}`,
    plan.restarts ? `${plan.restarts} restart${plan.restarts > 1 ? "s" : ""}` : "",
    plan.ramdisk ? "boots the ramdisk" : "",
    goes,
    plan.incomplete,
  ].filter(Boolean);
  return html`<ol class="plan">
      ${plan.steps.map((/** @type {Json} */ step, /** @type {number} */ at) =>
        h(PlanStep, { step, at, faults: faultsOf(plan, at) }),
      )}
    </ol>
    <p class="small">${facts.map((fact, at) => html`${at ? " · " : ""}${h(Text, { of: fact })}`)}</p>
    ${plan.faults
      .filter((/** @type {Json} */ fault) => !/_steps\/\d+/.test(fault.path ?? ""))
      .map((/** @type {Json} */ fault) => h(PlanFault, { fault }))}`;
}

/** @param {Json} plan @param {number} at */
const faultsOf = (plan, at) =>
  plan.faults.filter((/** @type {Json} */ fault) =>
    new RegExp(`_steps/${at}(/|$)`).test(fault.path ?? ""),
  );

/** @param {{fault: Json}} props */
function PlanFault({ fault }) {
  return html`<p class="wrong">
    <span aria-hidden="true">✗</span> ${fault.path && html`<code>${h(Text, { of: fault.path })}</code>: `}
    ${h(Text, { of: fault.text })}
  </p>`;
}

/** @param {{step: Json, at: number, faults: Json[]}} props */
function PlanStep({ step, faults }) {
  const effects = step.destroys === null ? ["effects unknown"] : step.destroys.map(word);
  const usual = step.usual_seconds;
  return html`<li>
    <span class="step">${h(Text, { of: `${step.interface}.${step.step}` })}</span>
    <span>${step.by}</span>
    <span class=${step.destroys?.includes("data") ? "danger" : ""}>${effects.join(", ")}</span>
    <span>${step.restarts ? `${step.restarts} restart` : ""}</span>
    <span>
      ${usual ? `~${duration(usual.p50)}, 90 % within ${duration(usual.p90)} (${usual.samples})` : ""}
    </span>
    ${faults.map((fault) => h(PlanFault, { fault }))}
  </li>`;
}

/** @param {string} effect */
const word = (effect) => DESTROYS[effect] ?? effect;

/**
 * @param {{kind: string | null, name: string, onSure: (sure: boolean) => void,
 *   what?: string, on?: string}} props `name` is what has to be typed
 */
export function Confirm({ kind, name, onSure, what = "name of the node", on = name }) {
  const [text, setText] = useState("");
  if (kind === "none") return null;
  if (kind === "tick") {
    return html`<label class="block"
      ><input
        type="checkbox"
        onInput=${(/** @type {any} */ event) => onSure(event.target.checked)}
      />
      I have read what changes.</label
    >`;
  }
  const typed = /** @param {any} event */ (event) => {
    setText(event.target.value);
    onSure(event.target.value === name);
  };
  return html`<label class="block danger"
    >This may destroy the data on ${h(Text, { of: on })}. Type the ${what}:
    <input autocomplete="off" spellcheck="false" value=${text} onInput=${typed} />
  </label>`;
}
