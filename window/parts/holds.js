/** Holds: what each kind blocks in plain words, the dialogs that begin and lift one, their list. */
import { useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { ActForm, show, useSend, withValue } from "./dialog.js";
import { Listed } from "./read.js";
import { bdi, BLOCKS, choice, field, html, say, stamp, typed } from "./text.js";
import { prefs } from "../state/route.js";

/** @typedef {Record<string, any>} Json */

/** Kinds: their label, what they block, what they still allow. The strongest is the first. @type {Record<string, [string, string[], string]>} */
const HOLD_KINDS = {
  freeze: ["freeze: no changes", ["verbs", "power", "forget"], "abort, maintenance, changes of fields"],
  legal: ["legal: keep the data", ["erase", "forget"], "power changes, inspect, manage, rescue"],
  hardware: [
    "hardware: no new user", ["use"],
    "everything else: ERASING by clean, provide or undeploy, power changes, deletion of the node",
  ],
};

const NO_LOGIN = "no login";

/** @param {string[]} blocks */
const blocked = (blocks) => blocks.map((one) => BLOCKS[one] ?? one).join("; ");

/** A new hold: the kind that blocks most. */
export const NEW_HOLD = { kind: "freeze", reason: "" };

/** @param {{body: Json, onChange: (body: Json) => void}} props */
export function HoldForm({ body, onChange }) {
  const zone = prefs.value.utc ? "Z" : "";
  const until = typed((at) => onChange(withValue(body, "until", at && new Date(at + zone).toISOString())));
  const [, blocks = [], allows] = HOLD_KINDS[body.kind] ?? [];
  return html`<div class="form-grid">
    ${choice("Kind", body.kind, (kind) => onChange({ ...body, kind }),
      Object.entries(HOLD_KINDS).map(([kind, [label]]) => [kind, label]))}
    ${field("Reason", {
      required: true, value: body.reason, onInput: typed((reason) => onChange({ ...body, reason })),
    })}
    ${field(`Until (optional${zone && ", UTC"})`, { type: "datetime-local", onInput: until })}
  </div>
  <p role="status"><strong>Blocks</strong> ${blocked(blocks)}. <strong>Still allows</strong> ${allows}.</p>`;
}

/** @typedef {{own: string, name: string, reload?: () => void, holds: Json[], chosen?: string}} Held `own`: path of the node */

/** @param {Held} props */
export function openHold(props) {
  show(() => h(HoldOne, props));
}

/** @param {Held} props */
function HoldOne({ own, name, reload }) {
  const [body, setBody] = useState(/** @type {Json} */ (NEW_HOLD));
  const sending = useSend({ method: "POST", path: `${own}/holds`, body, of: own }, () => {
    say(`${name} is held.`);
    reload?.();
  });
  const title = `Hold ${name}`;
  return h(ActForm, { ...sending, title, button: title, ready: !!body.reason },
    h(HoldForm, { body, onChange: setBody }));
}

/** @param {Held} props `holds` in force, of which one is lifted; `chosen`: its UUID */
export function openLift(props) {
  show(() => h(Lift, props));
}

/** @param {Held} props */
function Lift({ own, name, reload, holds, chosen = holds[0]?.uuid }) {
  const [uuid, setUuid] = useState(chosen);
  const [reason, setReason] = useState("");
  const hold = holds.find((one) => one.uuid === uuid) ?? {};
  const stay = holds.filter((one) => one !== hold);
  const kept = stay.flatMap((one) => one.blocks);
  if (kept.includes("verbs")) kept.push("use", "erase");
  const again = (hold.blocks ?? []).filter((/** @type {string} */ one) => !kept.includes(one));
  const query = new URLSearchParams({ reason });
  const sending = useSend({ method: "DELETE", path: `${own}/holds/${uuid}?${query}`, of: own }, () => {
    say(`The hold (${hold.kind}) of ${name} is lifted.`);
    reload?.();
  });
  const act = { ...sending, title: `Lift a hold of ${name}`, button: "Lift the hold", ready: !!reason };
  return h(ActForm, act, html`
    ${holds.length > 1 && html`<div class="form-grid">
      ${choice("Hold", uuid, setUuid, holds.map((one) => [one.uuid, `${one.kind}: ${one.reason}`]))}</div>`}
    <p>■ <strong>${bdi(hold.kind)}: ${bdi(hold.reason)}</strong><br />
      Held by ${bdi(hold.created_by ?? NO_LOGIN)} since ${stamp(hold.created_at)}
      ${hold.until ? html`, until ${stamp(hold.until)}` : ""}.</p>
    <p>${again.length > 0 && `Allowed again: ${blocked(again)}. `}${stay.length > 0 &&
      html`Still blocked by: ${bdi(stay.map((one) => `${one.kind}: ${one.reason}`).join("; "))}. `}Nothing starts by itself.</p>
    ${field("Reason to lift it", {
      class: "block", required: true, value: reason, onInput: typed(setReason),
    })}`);
}

/** All holds of a node. @param {any} props */
export function Holds({ own, why, reload, turn }) {
  const name = why.name ?? why.node;
  const lift = /** @param {Json} hold */ (hold) => html`<button
    onClick=${() => openLift({ own, name, reload, holds: why.holds, chosen: hold.uuid })}>Lift…</button>`;
  return h(Listed, {
    path: `${own}/holds?ended=true`, again: turn, label: "Holds", of: "holds",
    head: ["Kind", "Reason", "Blocks", "Since", "Until", "By", "Lifted"],
    row: (one) => [
      one.kind, one.reason, blocked(one.blocks), stamp(one.created_at),
      stamp(one.until), one.created_by ?? NO_LOGIN, one.ended_at ? lifted(one) : lift(one),
    ],
  });
}

/** @param {Json} hold that has ended */
const lifted = ({ ended_at, ended_by, end_reason, until }) => html`${stamp(ended_at)}
  ${ended_by ? html` by ${bdi(ended_by)}` : !end_reason && until ? ", its time was over" : ""}
  ${end_reason && html`: ${bdi(end_reason)}`}`;
