/** Dialogs of runs: a verb with its plan first, the options of a retry, a stop. */
import { STATES, VERBS } from "../facts.js";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { ActForm, Changes, show, useSend } from "./dialog.js";
import { Skeleton, useDocument } from "./read.js";
import { missing, StepsField } from "./steps.js";
import {
  bdi, causeOf, choice, Curl, DESTROYS, ERASING, field, html, many, nameOf, say, stepName, checkbox, told, typed, verb, VERB_HINTS, visible,
} from "./text.js";
import { duration, go, href, path, route } from "../state/route.js";
import { ask, get, monitor, sleep } from "../wire/api.js";

/** @typedef {Record<string, any>} Json */

/**
 * Open the dialog of a verb.
 * @param {Json} node with `uuid`, `name`, `provision_state`
 * @param {string} target
 */
export function openVerb(node, target) {
  show(() => h(VerbDialog, { node, target }));
}

/** Verbs that some of these states offer; of two names of one verb the first. @param {Set<string>} states */
export const verbsFrom = (states) => VERBS.filter(({ alias, from }) =>
  !alias && from.some((state) => states.has(state))).map(({ target }) => target);

/**
 * What a plan asks of the user before the button works: `name`, `unknown` (the name, too, because the
 * effects are not known), `tick` or `none`.
 * @param {Json} plan @param {string} state of the node
 */
export function confirmation(plan, state) {
  const all = new Set([plan, ...plan.steps].flatMap((one) => one.destroys ?? ["unknown"]));
  if (all.has("data") || all.has("volumes")) return "name";
  if (all.has("unknown")) return "unknown";
  if (all.size || (plan.restarts && state === "active")) return "tick";
  return "none";
}

/** A plan is made again when its node has changed, which is asked so often. */
const MOVES_MS = 2000;
/** Verbs that write the image to the disk. */
const INSTALLS = ["active", "rebuild"];

/** @param {{node: Json, target: string}} props */
function VerbDialog({ node, target }) {
  const [options, setOptions] = useState(/** @type {Json} */ ({}));
  const first = missing(target, options) || (lacksReason(options) ? "Say why the step is left out." : "");
  const plan = usePlan(node, first ? null : { target, ...options });
  const name = nameOf(node);
  const own = path("nodes", node.uuid);
  const now = useDocument(own, { each: MOVES_MS });
  const seen = useRef(/** @type {typeof now | null} */ (null));
  if (now.body) seen.current ??= now;
  const moved = seen.current && now.body && seen.current.tag !== now.tag && now.tag === plan.tag;
  const sending = useSending(node, { target, ...options }, plan, now.reload);
  useEffect(() => {
    // Not by a request of this dialog whose answer was lost: it may be sent again.
    if (now.tag && plan.tag && now.tag !== plan.tag && !sending.busy && !sending.fault) plan.again();
  }, [now.tag]);
  const aborts = target === "abort";
  const why = useDocument(aborts || target === "available" ? `${own}/why` : null, { each: MOVES_MS }).body;
  const unerased = target === "available" && why?.data_state !== "clean";
  const cut = aborts && !why?.verbs.some((/** @type {Json} */ one) => one.target === target && one.after)
    ? String(why?.run?.title) : "";
  const kind = !plan.body ? null : unerased ? "name" : aborts && (!why || ERASING.test(cut)) ? "tick"
    : confirmation(plan.body, node.provision_state);
  const [sure, setSure] = useState(false);
  // A confirmation is of the plan that was read, not of the one that took its place.
  useLayoutEffect(() => setSure(false), [plan.count, kind]);
  const ready = plan.body?.accepted && (kind === "none" || sure);
  const act = {
    ...sending, title: `${verb(target)} ${name}`, note: VERB_HINTS[target] ?? "",
    fault: sending.fault ?? plan.fault, ready, danger: kind === "name" || kind === "unknown",
    button: plan.body?.accepted && `${verb(target)} ${name}`,
    request: { ...sending.request, path: path("nodes", name, "states", "provision") },
  };
  return h(ActForm, act, html`
    ${node.maintenance && html`<p class="wrong">▲ ${bdi(name)} is in maintenance${node.maintenance_reason && html`: ${bdi(node.maintenance_reason)}`}.</p>`}
    ${now.body && INSTALLS.includes(target) && html`<p>Image: ${bdi(now.body.instance_info?.image_source ?? "none")}</p>`}
    ${unerased && why && html`<p class="wrong">Its disks are not erased (data: ${why.data_state}). The next user may read them.</p>`}
    ${halfErased(cut)}
    ${h(Arguments, { node, target, onChange: setOptions })}
    ${first && html`<p role="status">${first}</p>`}
    ${!first && !plan.body && !plan.fault && h(Skeleton, { rows: 3 })}
    ${plan.body && h(Plan, { plan: plan.body })}
    ${h(Curl, { method: "POST", path: path("nodes", name, "plan"), body: { target, ...options }, label: "plan as curl" })}
    ${plan.body?.accepted && h(Confirm, {
      kind, name, onSure: setSure, key: plan.count, ...(unerased && { does: "leaves the data on" }),
    })}
    ${sending.note && html`<p role="status">${sending.note}</p>`}
    ${moved && html`<p role="status">The node has changed: this is the new plan.</p>
      ${h(Changes, { seen: seen.current?.body, now: now.body })}`}`);
}

export const HALF = "An erase that is aborted leaves the disks partly erased.";

/** What an abort leaves behind. @param {string} step that it ends at once */
const halfErased = (step) => ERASING.test(step) && html`<p class="wrong">${bdi(step)} is under way. ${HALF}</p>`;

/** @param {Json} options of a verb @returns {boolean} a step is left out, and nobody has said why yet */
const lacksReason = ({ retry }) => !!retry?.waive?.some((/** @type {Json} */ one) => !one.reason);

/** @param {Json} node @param {Json | null} body null: nothing is asked */
function usePlan(node, body) {
  const none = { body: null, tag: "", fault: null, count: 0, text: "" };
  const [state, setState] = useState(/** @type {any} */ (none));
  const [turn, setTurn] = useState(0);
  const text = body ? JSON.stringify(body) : "";
  useEffect(() => {
    if (!text) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      ask("POST", path("nodes", node.uuid, "plan"), {
        body: JSON.parse(text), accepts: [422], signal: abort.signal,
      }).then(
        ({ body: found, tag }) =>
          setState((/** @type {any} */ old) => ({
            body: found, tag, fault: null, count: old.count + 1, text,
          })),
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

/** @param {Json} node @param {Json} body @param {any} plan @param {() => void} reload the node */
function useSending(node, body, plan, reload) {
  const [note, setNote] = useState("");
  const request = {
    method: "PUT", path: path("nodes", node.uuid, "states", "provision"), body, tag: plan.tag,
    onWait: (/** @type {number} */ seconds, /** @type {string} */ said) => setNote(waits(seconds, said)),
  };
  const done = (/** @type {any} */ { link }) => {
    const title = `${verb(body.target)} of ${nameOf(node)}`;
    const run = monitor(link);
    if (run) go(href(run));
    say(`${title} is accepted.`);
    if (run) void tellEnd(run, title);
  };
  const sending = useSend(request, done, (fault) => {
    setNote("");
    if (fault.status !== 412) return fault;
    plan.again();
    reload();
    return null;
  });
  return { ...sending, note };
}

const LONGEST_PAUSE_MS = 10_000;

/**
 * Tell the end of a run or a batch that was begun here, and where to look unless it is shown.
 * @param {string} own its path @param {string} title
 */
export async function tellEnd(own, title) {
  for (let pause = 1000; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 1.2)) {
    await sleep(pause);
    if (document.hidden) continue; // A tab that nobody sees asks nothing.
    const { body, status } = await get(own).catch((fault) => fault);
    if (status === 403 || status === 404) return;
    if (!body?.ended_at && body?.state !== "paused") continue;
    const cause = told(causeOf(body));
    return say(`${title}: ${body.state}. ${cause}`, route.value.path === own ? "" : href(own));
  }
}

/** @param {number} seconds @param {string} said the refusal; of a lock it names the holder */
const waits = (seconds, said) => `${visible(said)} The window tries again in ${seconds} s.`;

/** Arguments that a verb takes beside its target. @param {any} props */
function Arguments({ node, target, onChange }) {
  if (target === "retry") return h(RetryOptions, { node, onChange });
  if (target === "rescue") return h(Password, { onChange });
  return h(StepsField, { node: node.uuid, target, onChange });
}

/** @param {{onChange: (body: Json) => void}} props */
function Password({ onChange }) {
  return field("Password of the rescue ramdisk", {
    class: "block", type: "password", autocomplete: "new-password",
    onInput: typed((rescue_password) => onChange({ rescue_password })),
  });
}

/** @param {{plan: Json}} props */
export function Plan({ plan }) {
  const goes = STATES[plan.leads_to] ? `leads to ${plan.leads_to}` : "";
  const facts = [
    usually(plan.seconds, " – "),
    plan.restarts ? many(plan.restarts, "restart") : "",
    plan.ramdisk ? "boots the ramdisk" : "",
    goes,
    plan.incomplete,
  ].filter(Boolean);
  return html`<ol class="plan">
      ${plan.steps.map((/** @type {Json} */ step, /** @type {number} */ at) =>
        h(PlanStep, { step, faults: faultsOf(plan, at) }),
      )}
    </ol>
    <p class="small">${facts.map((fact, at) => html`${at ? " · " : ""}${bdi(fact)}`)}</p>
    ${plan.faults
      .filter((/** @type {Json} */ fault) => !/_steps\/\d+/.test(fault.path ?? ""))
      .map((/** @type {Json} */ fault) => h(PlanFault, { fault }))}`;
}

/** @param {Json | null} times median and 90th percentile @param {string} between both, unless they are the same */
const usually = (times, between) =>
  times && [...new Set([duration(times.p50), duration(times.p90)])].join(between);

/** @param {Json} plan @param {number} at */
const faultsOf = (plan, at) =>
  plan.faults.filter((/** @type {Json} */ fault) =>
    new RegExp(`_steps/${at}(/|$)`).test(fault.path ?? ""),
  );

/** @param {{fault: Json}} props */
function PlanFault({ fault }) {
  return html`<p class="wrong">
    <span aria-hidden="true">✗</span> ${fault.path && html`<code>${bdi(fault.path)}</code>: `}
    ${bdi(told(fault.text))}
  </p>`;
}

/** Who carries a step out. @type {Record<string, string>} */
const BY = { bmc: "through the BMC", agent: "in the ramdisk" };

/** @param {{step: Json, faults: Json[]}} props */
function PlanStep({ step, faults }) {
  const effects = step.destroys === null ? ["effects unknown"] : step.destroys.map(word);
  const usual = step.usual_seconds;
  return html`<li>
    <span class="step">${bdi(stepName(step))}</span>
    <span class="small">${BY[step.by] ?? step.by}</span>
    <span class=${step.destroys?.includes("data") ? "danger" : ""}>${effects.join(", ")}</span>
    <span>${step.restarts ? many(step.restarts, "restart") : ""}</span>
    <span>
      ${usual ? `usually ${usually(usual, ", 9 of 10 within ")} (${usual.samples} measured)` : ""}
    </span>
    ${faults.map((fault) => h(PlanFault, { fault }))}
  </li>`;
}

/** @param {string} effect */
const word = (effect) => DESTROYS[effect] ?? effect;

/**
 * @param {{kind: string | null, name: string, onSure: (sure: boolean) => void,
 *   what?: string, on?: string, does?: string}} props `name` is what has to be typed
 */
export function Confirm({ kind, name, onSure, what = "name of the node", on = name, does = "may destroy the data on" }) {
  const [text, setText] = useState("");
  if (kind === "none") return null;
  const effect = kind === "unknown" ? "has effects that are not known on" : does;
  if (kind === "tick") return checkbox("I have read what changes.", onSure);
  const onInput = typed((value) => {
    setText(value);
    onSure(value === name);
  });
  return html`<label class="block danger"
    >This ${effect} ${bdi(on)}. Type the ${what}:
    <input autocomplete="off" spellcheck="false" value=${text} onInput=${onInput} />
  </label>`;
}

// -- The options of a retry: where it begins, what it leaves out, what it repeats in doubt.

/** @param {{node: Json, onChange: (body: Json) => void}} props */
function RetryOptions({ node, onChange }) {
  const own = path("nodes", node.uuid);
  const why = useDocument(`${own}/why`);
  const run = useDocument(why.body?.run ? `${own}/runs/${why.body.run.uuid}` : null);
  const [given, setGiven] = useState({ from: "", waive: "", reason: "", force: false });
  /** @param {Partial<typeof given>} more */
  const put = (more) => {
    const next = { ...given, ...more };
    setGiven(next);
    onChange(body(next));
  };
  const steps = /** @type {Json[]} */ (run.body?.steps ?? []);
  const stopped = steps.findIndex((step) => step.state === "failed" || step.state === "aborted");
  return html`<details>
    <summary>Begin earlier, or leave a step out</summary>
    <div class="form-grid">
      ${stepChoice("Begin with", "the step that failed", steps.slice(0, Math.max(0, stopped)), given.from,
        (from) => put({ from }))}
      ${stepChoice("Leave out", "no step", steps.slice(Math.max(0, stopped)), given.waive,
        (waive) => put({ waive }))}
      ${given.waive &&
      field("Reason", { required: true, onInput: typed((reason) => put({ reason })) })}
    </div>
    ${checkbox("Repeat a step although it may have ended on the machine.", (force) => put({ force }))}
  </details>`;
}

/** @param {{from: string, waive: string, reason: string, force: boolean}} given @returns {Json} */
function body({ from, waive, reason, force }) {
  const retry = {
    ...(from && { from: Number(from) }),
    ...(waive && { waive: [{ ordinal: Number(waive), reason }] }),
    ...(force && { force }),
  };
  return Object.keys(retry).length ? { retry } : {};
}

/**
 * A choice of one step, or of none.
 * @param {string} label @param {string} none @param {Json[]} steps @param {string} chosen its ordinal
 * @param {(ordinal: string) => void} put
 */
const stepChoice = (label, none, steps, chosen, put) =>
  choice(label, chosen, put, [
    ["", none],
    ...steps.map((step) => [String(step.ordinal), `${step.ordinal + 1} ${stepName(step)}`]),
  ]);

// -- The dialog that stops a run at its next step.

// A hold of a run is no hold of its node, which is another button.
const WAYS = { hold: "wait there, until Go on or Abort", abort: "abort the run" };

/** @param {{own: string, name: string, reload?: () => void}} props `own` is the path of the node */
export function openStop(props) {
  show(() => h(Stop, props));
}

/** @param {{own: string, name: string, reload?: () => void}} props */
function Stop({ own, name, reload }) {
  const [how, setHow] = useState("hold");
  const [reason, setReason] = useState("");
  const [after, setAfter] = useState("");
  const [sure, setSure] = useState(false);
  const run = useDocument(`${own}/runs/current`).body;
  const steps = (run?.steps ?? []).filter((/** @type {any} */ step) => !step.ended_at);
  const body = { how, ...(after && { after: Number(after) }), ...(reason && { reason }) };
  const [now] = steps;
  const cut = how === "abort" && !after && now?.state === "waiting" && now.abortable ? stepName(now) : "";
  const kind = ERASING.test(cut) ? "tick" : "none";
  useLayoutEffect(() => setSure(false), [kind]);
  // The run that was read, and none that may have begun since.
  const sending = useSend({ method: "PUT", path: `${own}/runs/${run?.uuid}/stop`, body, of: own }, () => {
    say(`The run of ${name} stops at its next step.`);
    reload?.();
  });
  const title = `Stop the run of ${name}`;
  return h(ActForm, { ...sending, title, button: title, ready: run && (sure || kind === "none") }, html`
    <p>${cut ? `${cut} ends at once.` : "The step under way ends first."}</p>
    ${Object.entries(WAYS).map(
      ([way, what]) => html`<label class="block"
        ><input type="radio" name="how" checked=${how === way} onInput=${() => setHow(way)} /> ${what}</label
      >`,
    )}
    ${stepChoice("Stop after", "the step under way", steps, after, setAfter)}
    ${field("Reason", { class: "block", onInput: typed(setReason) })}
    ${halfErased(cut)} ${h(Confirm, { kind, name, onSure: setSure })}`);
}
