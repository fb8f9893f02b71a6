/** The dialog that stops a run at its next step. */
import { useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { change } from "../wire/changes.js";
import { Fault } from "../wire/faults.js";
import { say } from "./copy.js";
import { ActForm, close, show } from "./dialog.js";
import { html } from "./text.js";

const WAYS = { hold: "hold there, to go on later", abort: "abort the run" };

/** @param {{own: string, name: string, reload: () => void}} props `own` is the path of the node */
export function openStop(props) {
  show(() => h(Stop, props));
}

/** @param {{own: string, name: string, reload: () => void}} props */
function Stop({ own, name, reload }) {
  const [how, setHow] = useState("hold");
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const request = {
    method: "PUT", path: `${own}/runs/current/stop`, body: { how, ...(reason ? { reason } : {}) },
  };
  const send = () =>
    change(request).then(() => {
      say(`The run of ${name} stops at its next step.`);
      close();
      reload();
    }, setFault);
  const title = `Stop the run of ${name}`;
  return h(ActForm, { title, fault, request, button: title, send }, html`
    <p>The step under way ends first. Its machine is never left in the middle of a step.</p>
    ${Object.entries(WAYS).map(
      ([way, what]) => html`<label class="block"
        ><input type="radio" name="how" checked=${how === way} onInput=${() => setHow(way)} /> ${what}</label
      >`,
    )}
    <label class="block"
      >Reason <input onInput=${(/** @type {any} */ event) => setReason(event.target.value)}
    /></label>`);
}
