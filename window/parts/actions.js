/** Acts on one node: verbs, power, maintenance, delete, and the orders to its BMC. */
import { useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { ActForm, Menu, show, useSend } from "./dialog.js";
import { openHold, openLift } from "./holds.js";
import { Confirm, openStop, openVerb, verbsFrom } from "./plan.js";
import { FaultBox, Skeleton, Tree, useDocument } from "./read.js";
import { bdi, choice, Curl, DATA_STATES, field, html, nameOf, say, told, typed, verb, VERB_HINTS, visible } from "./text.js";
import { go, path } from "../state/route.js";

/** @typedef {Record<string, any>} Json */

/** Targets of power with what they do. @type {[string, string][]} */
export const POWER_ACTS = [
  ["power on", "Starts"],
  ["power off", "At once cuts the power of"],
  ["rebooting", "At once restarts"],
  ["soft power off", "Shuts down"],
  ["soft rebooting", "Restarts"],
];

/** States of a node with an instance. */
const USED = /active|rescu|servic/;

/** @param {Json} why @param {string} name @returns {Json | undefined} an order of the node */
const orderOf = (why, name) => why.orders.find((/** @type {Json} */ one) => one.order === name);

/**
 * A button that says why it cannot be used, instead of being used.
 * @param {{refused?: Json | null, onClick: () => void, children?: any, primary?: boolean,
 *   hint?: string, now?: boolean}} props `now`: what it sets is so at present
 */
function Refusable({ refused, onClick, children, primary, hint, now }) {
  const said = refused ? told(refused.text) : hint;
  return html`<button
    class=${primary && !refused ? "primary" : ""}
    aria-disabled=${refused ? "true" : undefined}
    aria-current=${now ? "true" : undefined}
    title=${said}
    onClick=${() => (refused ? say(String(said)) : onClick())}
  >
    ${now && html`<span aria-hidden="true">● </span>`}${children}
    ${refused && html`<span class="unseen"> refused: ${said}</span>`}
  </button>`;
}

/** @param {{why: Json, node: Json | null, reload: () => void}} props */
export function Actions({ why, node, reload }) {
  const self = node ?? { uuid: why.node, name: why.name, provision_state: why.provision_state, maintenance: why.maintenance };
  // Verbs with more than one name are shown once; a retry comes first.
  const names = verbsFrom(new Set([why.provision_state]));
  const isFirst = /** @param {Json} one */ (one) => one.target === "retry" && !one.refused;
  const offered = why.verbs.filter((/** @type {Json} */ one) => names.includes(one.target))
    .sort((/** @type {Json} */ a, /** @type {Json} */ b) => Number(isFirst(b)) - Number(isFirst(a)));
  const own = path("nodes", why.node);
  /** @param {Json} request */
  const simple = (request) => openSimple({ ...request, of: own, reload });
  const name = why.name ?? why.node;
  const { holds } = why;
  return html`<div class="actions" role="group" aria-label="Acts on this node">
    ${offered.map((/** @type {Json} */ one, /** @type {number} */ at) => h(VerbButton, { key: one.target, one, node: self, first: at === 0 }))}
    ${underWay(why.run) &&
    html`<button onClick=${() => openStop({ own, name, reload })}>Stop at the next step…</button>
      ${why.run.stop?.progress === "asked" && html`<button onClick=${() => simple({
        title: `Withdraw the stop of ${name}`, kind: "none", method: "DELETE", button: "Withdraw",
        path: `${own}/runs/${why.run.uuid}/stop`, waits: false, says: "The run then goes on with its next step.",
      })}>Stop is requested: withdraw…</button>`}`}
    ${h(Menu, { name: "Power" }, POWER_ACTS.map((one) => {
        const { refused, targets } = orderOf(why, "power") ?? {};
        const label = verb(one[0]);
        const lacks = targets?.includes(one[0]) ? null : { text: `${label} is not possible now.` };
        return h(Refusable, { refused: refused ?? lacks, onClick: () => openPower(self, one, reload) }, `${label}…`);
      }))}
    <button onClick=${() => openHold({ own, name, reload, holds })}>Hold…</button>
    ${holds.length > 0 && html`<button onClick=${() => openLift({ own, name, reload, holds })}>Lift hold…</button>`}
    <button onClick=${() => show(() => h(Declare, { own, name, now: why.data_state, reload }))}>Data…</button>
    ${node &&
    h(Refusable, {
      refused: orderOf(why, "maintenance")?.refused,
      onClick: () => openMaintenance(node, reload),
    }, node.maintenance ? "End maintenance…" : "Maintenance…")}
    ${h(Refusable, {
      refused: orderOf(why, "delete")?.refused,
      onClick: () =>
        simple({
          title: `Delete ${name}`, kind: "name", name, method: "DELETE", path: own,
          button: `Delete ${name}`, then: "#/v1/nodes",
          says: USED.test(why.provision_state) && "An instance is running on it.",
          does: "makes the service forget",
        }),
    }, "Delete…")}
  </div>`;
}

/** @param {Json} node @param {[string, string]} act @param {() => void} [reload] */
export function openPower(node, [target, does], reload) {
  const label = verb(target);
  const used = USED.test(node.provision_state);
  const name = nameOf(node);
  const of = path("nodes", node.uuid);
  openSimple({
    title: `${label}: ${name}`, kind: used && target !== "power on" ? "tick" : "none",
    says: `${does} ${name}${used ? "; an instance is running on it" : ""}.`,
    method: "PUT", path: `${of}/states/power`, body: { target }, button: `${label} ${name}`, of, reload,
  });
}

/** Begin or end the maintenance of a node. @param {Json} node @param {() => void} [reload] */
export function openMaintenance(node, reload) {
  const of = path("nodes", node.uuid);
  const name = nameOf(node);
  const ends = node.maintenance;
  const button = `${ends ? "End" : "Set"} maintenance`;
  openSimple({
    title: `${button}: ${name}`, kind: "none", method: ends ? "DELETE" : "PUT", path: `${of}/maintenance`,
    button, of, reload, explained: !ends, done: `${name} is ${ends ? "out of" : "in"} maintenance.`,
  });
}

/** @param {Json | null} run */
const underWay = (run) => ["running", "waiting"].includes(run?.state);

/** Verbs that may be the primary button: no data and no run ends by them. A retry asks for the name first. */
const HARMLESS = ["retry", "manage", "unhold"];

/** @param {{one: Json, node: Json, first: boolean}} props */
function VerbButton({ one, node, first }) {
  const { refused, target } = one;
  const onClick = () => openVerb(node, target);
  const hint = `${VERB_HINTS[target] ?? ""}; leads to ${one.leads_to}`;
  return h(Refusable, { refused, onClick, hint, primary: first && HARMLESS.includes(target) }, `${verb(target)}…`);
}

/**
 * @param {any} props a request `of` a node with `title`, `kind` of confirmation, `button`; `says` what changes;
 *   `explained`: its body is a reason; `done`: told at the end; `waits`: for the end of the node's lock
 */
export const openSimple = (props) => show(() => h(Simple, props));

/** @param {any} props */
function Simple(props) {
  const { title, kind, button, reload, then, method, of, says, explained, waits = true, done = `${title}: accepted.` } = props;
  const [sure, setSure] = useState(false);
  const [reason, setReason] = useState("");
  const body = explained ? { reason } : props.body;
  const sending = useSend({ method, path: props.path, body, of, waits }, () => {
    if (then) go(then);
    else reload?.();
    say(done);
  });
  return h(ActForm, { ...sending, title, button, danger: kind === "name", ready: kind === "none" || sure }, html`
    ${says && html`<p>${bdi(says)}</p>`} ${explained && field("Reason", { class: "block", onInput: typed(setReason) })}
    ${h(Confirm, { ...props, onSure: setSure })}`);
}

/**
 * Declare the state of the node's data.
 * @param {{own: string, name: string, now: string, reload: () => void}} props
 */
function Declare({ own, name, now, reload }) {
  const [body, setBody] = useState({ data_state: now ?? DATA_STATES[0], reason: "" });
  const sending = useSend({ method: "PUT", path: `${own}/data_state`, body, of: own }, () => {
    say(`The data on ${name} is declared ${body.data_state}.`);
    reload();
  });
  const title = `Data on ${name}`;
  return h(ActForm, { ...sending, title, button: "Declare", ready: !!body.reason }, html`
    <p>This proves no erasure. The history shows who declared it.</p>
    <div class="form-grid">
      ${choice("State", body.data_state, (data_state) => setBody({ ...body, data_state }), DATA_STATES)}
      ${field("Reason", { required: true, onInput: typed((reason) => setBody({ ...body, reason })) })}
    </div>`);
}

// -- The tab BMC: what the BMC reports, and the orders that the node's driver carries out.

/** Orders with fixed targets: label, path below the node, body of a target, what the node does. @type {Record<string, Order>} */
const FIXED = {
  boot_mode: ["Boot mode", "states/boot_mode", (target) => ({ target }), "boots in the mode %"],
  secure_boot: ["Secure boot", "states/secure_boot", (target) => ({ target }), "boots with secure boot %"],
  console: ["Console", "states/console", (enabled) => ({ enabled }), "has its console switched %"],
  boot_device: ["Next boot", "management/boot_device", (boot_device) => ({ boot_device }), "boots from % once"],
  nmi: ["Interrupt", "management/inject_nmi", () => ({}), "is interrupted, which may stop its system"],
};
/** @typedef {[string, string, (target: any) => Json, string]} Order */
const LACKS = "UnsupportedDriverExtension";

/** @param {any} props */
export function Bmc({ own, why, turn, ...props }) {
  // The machine itself is asked again after own orders, not after each event.
  const [orders, setOrders] = useState(0);
  const reload = () => (setOrders((last) => last + 1), props.reload());
  const devices = useDocument(`${own}/management/boot_device/supported`).body;
  const states = useDocument(`${own}/states`, { again: turn });
  const fixed = /** @type {Json[]} */ (why.orders).filter((one) => one.order in FIXED);
  const lacks = /** @param {string} order */ (order) => orderOf(why, order)?.refused?.code === LACKS;
  const device = useDocument(lacks("boot_device") ? null : `${own}/management/boot_device`, { again: orders });
  const drives = useDocument(lacks("vmedia") ? null : `${own}/vmedia`, { again: orders });
  const { boot_mode, secure_boot, console_enabled } = states.body ?? {};
  const { boot_device, persistent } = device.body ?? {};
  const now = /** @type {Record<string, any>} */ ({ boot_mode, secure_boot, console: console_enabled, boot_device });
  const vmedia = orderOf(why, "vmedia");
  const lamps = orderOf(why, "indicators");
  const name = why.name ?? why.node;
  return html`<dl class="tree orders">
      ${fixed.map((one) =>
        h(Targets, {
          one, own, name, reload, now: now[one.order],
          note: one.order === "boot_device" && boot_device ? (persistent ? "at each start" : "at the next start") : "",
          targets: { boot_device: devices?.supported_boot_devices ?? [], nmi: ["send NMI"] }[
            /** @type {"nmi"} */ (one.order)
          ] ?? one.targets,
        }),
      )}
      ${vmedia && h(Media, { one: vmedia, own, name, reload })}
      ${lamps && h(Lamps, { refused: lamps.refused, own, reload, turn: orders })}
    </dl>
    ${h(Part, { name: "States", path: `${own}/states`, of: states })}
    ${!lacks("vmedia") && h(Part, { name: "Virtual media", path: `${own}/vmedia`, of: drives })}`;
}

/** What the BMC reports, as it was read. @param {{name: string, path: string, of: Json}} props */
function Part({ name, path: from, of: { body, fault } }) {
  return html`<details open=${name === "States"}>
    <summary>${name}</summary>
    ${fault && h(FaultBox, { fault, path: from })} ${!fault && !body && h(Skeleton, {})}
    ${body && html`<p class="tools">${h(Curl, { path: from })}</p> ${h(Tree, { of: body })}`}
  </details>`;
}

/** @param {any} props `now`: the target that holds at present */
function Targets({ one, own, name, targets, reload, now, note }) {
  const [label, place, body, does] = /** @type {Order} */ (FIXED[one.order]);
  const word = /** @param {any} target */ (target) => ({ true: "on", false: "off" })[String(target)] ?? target;
  /** @param {any} target */
  const open = (target) =>
    openSimple({
      title: `${label}: ${word(target)}`, kind: "tick", method: "PUT", path: `${own}/${place}`,
      says: `${name} ${does.replace("%", word(target))}.`,
      body: body(target), button: `${label}: ${word(target)}`, of: own, reload,
    });
  return html`<dt>${label}</dt>
    <dd class="actions">
      ${targets.map((/** @type {any} */ target) =>
        h(Refusable, { refused: one.refused, now: target === now, onClick: () => open(target) }, `${word(target)}…`),
      )}
      ${note && html`<span class="small">${note}</span>`}
      ${one.refused && html`<span class="small">${bdi(one.refused.text)}</span>`}
    </dd>`;
}

/** The indicator lamps: a driver without them says so. @param {any} props */
function Lamps({ refused, own, reload, turn }) {
  const from = refused?.code === LACKS ? null : `${own}/management/indicators`;
  const { body, fault } = useDocument(from, { again: turn });
  return html`<dt>Lamps</dt>
    <dd>
      ${body?.indicators.map((/** @type {Json} */ lamp) =>
        h(Lamp, { key: lamp.name, lamp, refused, own, reload, turn }),
      )}
      ${body?.indicators.length === 0 && html`<span class="small">The machine has none.</span>`}
      ${fault && h(FaultBox, { fault, path: from ?? "" })}
      ${refused && html`<span class="small">${bdi(refused.text)}</span>`}
    </dd>`;
}

/** One lamp: whether it is lit, and buttons for its states. @param {any} props */
function Lamp({ lamp, refused, own, reload, turn }) {
  const at = `${own}/management/indicators/${encodeURIComponent(lamp.name)}`;
  const { body } = useDocument(at, { again: turn });
  const fixed = lamp.readonly ? { text: `The machine alone switches ${lamp.name}.` } : null;
  /** @param {string} state */
  const open = (state) =>
    openSimple({
      title: `Lamp ${lamp.name}: ${state}`, kind: "none", method: "PUT", path: at, body: { state },
      button: `Lamp: ${state}`, of: own, reload,
    });
  return html`<div class="actions" role="group" aria-label=${`Lamp ${visible(lamp.name)}`}>
    ${bdi(lamp.name)} <strong>${body ? visible(body.state ?? "unknown") : "…"}</strong>
    ${lamp.states.map((/** @type {string} */ state) =>
      h(Refusable, { refused: refused ?? fixed, now: body?.state === state, onClick: () => open(state) }, `${state}…`),
    )}
  </div>`;
}

/** The virtual drives: an image is put in by its address. @param {any} props */
function Media({ one, own, name, reload }) {
  const [url, setUrl] = useState("");
  const [kind, setKind] = useState(one.targets[0]);
  const insert = () =>
    openSimple({
      title: `Insert into the ${kind}`, kind: "tick", method: "POST", path: `${own}/vmedia`,
      says: `${name} gets ${url} in its ${kind}.`,
      body: { device_type: kind, image_url: url }, button: "Insert", of: own, reload,
    });
  const eject = () =>
    openSimple({
      title: "Eject all virtual drives", kind: "tick", method: "DELETE", path: `${own}/vmedia`,
      says: `${name} loses the images in all its virtual drives.`, button: "Eject", of: own, reload,
    });
  const missing = url ? null : { text: "Enter the address of an image first." };
  return html`<dt>Virtual media</dt>
    <dd class="actions">
      ${choice("Drive", kind, setKind, one.targets)}
      <input
        aria-label="Address of an image"
        placeholder="https://…/image.iso"
        onInput=${typed(setUrl)}
      />
      ${h(Refusable, { refused: one.refused ?? missing, onClick: insert }, "Insert…")}
      ${h(Refusable, { refused: one.refused, onClick: eject }, "Eject…")}
      ${one.refused && html`<span class="small">${bdi(one.refused.text)}</span>`}
    </dd>`;
}
