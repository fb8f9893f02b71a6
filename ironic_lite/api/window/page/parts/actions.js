/** The buttons of a node: the verbs that it is offered, power, maintenance, delete. */
import { VERBS } from "../facts.js";
import { useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { path, go } from "../state/route.js";
import { change } from "../wire/changes.js";
import { Fault } from "../wire/faults.js";
import { say } from "./copy.js";
import { ActForm, close, show } from "./dialog.js";
import { HoldForm } from "./holding.js";
import { Confirm, openVerb } from "./plan.js";
import { openStop } from "./stopping.js";
import { html, visible } from "./text.js";
import { verb } from "./words.js";

/** @typedef {Record<string, any>} Json */

const POWERS = /** @type {const} */ ([
  ["power on", "Power on", "none"],
  ["power off", "Power off", "tick"],
  ["rebooting", "Reboot", "tick"],
  ["soft power off", "Shut down", "tick"],
]);

/** @param {{why: Json, node: Json | null, tag: string, reload: () => void}} props */
export function Actions({ why, node, tag, reload }) {
  const self = node ?? { uuid: why.node, name: why.name, provision_state: why.provision_state };
  const offered = distinct(why.verbs);
  const own = path("nodes", why.node);
  /** @param {Json} request */
  const simple = (request) => show(() => h(Simple, /** @type {any} */ ({ ...request, tag, reload })));
  const name = why.name ?? why.node;
  return html`<div class="actions" role="group" aria-label="Acts on this node">
    ${offered.map((one, at) => h(VerbButton, { key: one.target, one, node: self, first: at === 0 }))}
    ${underWay(why.run) &&
    html`<button onClick=${() => openStop({ own, name, reload })}>Stop at the next step…</button>`}
    <details class="menu">
      <summary>Power</summary>
      ${POWERS.map(([target, label, kind]) => {
        const order = why.orders?.find((/** @type {Json} */ one) => one.order === "power");
        return html`<button
          disabled=${!!order?.refused}
          title=${visible(order?.refused?.text)}
          onClick=${() =>
            simple({
              title: `${label}: ${name}`, kind: why.provision_state === "active" ? kind : "none",
              method: "PUT", path: `${own}/states/power`, body: { target }, button: `${label} ${name}`,
            })}
        >
          ${label}…
        </button>`;
      })}
    </details>
    <button onClick=${() => show(() => h(HoldOne, { own, name, reload }))}>Hold…</button>
    ${node &&
    html`<button
      onClick=${() =>
        simple({
          title: `Maintenance of ${name}`, kind: "none",
          method: node.maintenance ? "DELETE" : "PUT", path: `${own}/maintenance`,
          ...(node.maintenance ? {} : { body: { reason: "set in the window" } }),
          button: node.maintenance ? "End maintenance" : "Set maintenance",
        })}
    >
      ${node.maintenance ? "End maintenance…" : "Maintenance…"}
    </button>`}
    <button
      onClick=${() =>
        simple({
          title: `Delete ${name}`, kind: "name", name, method: "DELETE", path: own,
          button: `Delete ${name}`, then: "#/v1/nodes",
        })}
    >
      Delete…
    </button>
  </div>`;
}

/** @param {Json | null} run */
const underWay = (run) => ["running", "waiting"].includes(run?.state);

/** Verbs with more than one name are shown once; a retry comes first. @param {Json[]} verbs @returns {Json[]} */
function distinct(verbs) {
  const seen = new Set();
  const first = verbs.filter((one) => one.target === "retry" && !one.refused);
  return [...first, ...verbs.filter((one) => !first.includes(one))].filter((one) => {
    const event = VERBS.find((row) => row.target === one.target)?.event ?? one.target;
    const known = seen.has(event);
    seen.add(event);
    return !known;
  });
}

/** @param {{one: Json, node: Json, first: boolean}} props */
function VerbButton({ one, node, first }) {
  const said = one.refused ? visible(one.refused.text) : `leads to ${one.leads_to}`;
  return html`<button
    class=${first && !one.refused ? "primary" : ""}
    aria-disabled=${one.refused ? "true" : undefined}
    title=${said}
    onClick=${() => (one.refused ? say(said) : openVerb(node, one.target))}
  >
    ${verb(one.target)}…${one.refused && html`<span class="unseen"> refused: ${said}</span>`}
  </button>`;
}

/** @param {any} props a request with `title`, `kind` of confirmation, `button` */
export function Simple(props) {
  const { title, kind, name = "", button, tag, reload, then, method, body } = props;
  const [sure, setSure] = useState(false);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const ready = !busy && (kind === "none" || sure);
  const send = async () => {
    setBusy(true);
    try {
      await change({ method, path: props.path, body, tag });
      say(`${title}: accepted.`);
      close();
      if (then) go(then);
      else reload();
    } catch (error) {
      setFault(/** @type {Fault} */ (error));
      setBusy(false);
    }
  };
  const request = { method, path: props.path, body, headers: tag ? { "If-Match": tag } : {} };
  return h(ActForm, { title, fault, request, button, ready, send },
    h(Confirm, { kind, name, onSure: setSure }));
}

/** @param {{own: string, name: string, reload: () => void}} props */
function HoldOne({ own, name, reload }) {
  const [body, setBody] = useState(/** @type {Json} */ ({ kind: "hardware", reason: "" }));
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const send = () =>
    change({ method: "POST", path: `${own}/holds`, body }).then(() => {
      say(`${name} is held.`);
      close();
      reload();
    }, setFault);
  const request = { method: "POST", path: `${own}/holds`, body };
  const title = `Hold ${name}`;
  return h(ActForm, { title, fault, request, button: title, ready: !!body.reason, send },
    h(HoldForm, { body, onChange: setBody }));
}
