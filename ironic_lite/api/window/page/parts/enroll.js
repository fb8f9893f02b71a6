/** The dialog that enrolls a machine: its driver, and what the driver requires. */
import { SECRET_KEY } from "../facts.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { go, href, path } from "../state/route.js";
import { get, key } from "../wire/api.js";
import { change } from "../wire/changes.js";
import { Fault } from "../wire/faults.js";
import { say } from "./copy.js";
import { ActForm, close, show } from "./dialog.js";
import { html, Text } from "./text.js";

const secret = new RegExp(SECRET_KEY, "i");

/** @typedef {Record<string, any>} Json */

export function openEnroll() {
  show(() => h(Enroll, {}));
}

function Enroll() {
  const [drivers, setDrivers] = useState(/** @type {string[]} */ ([]));
  const [driver, setDriver] = useState("");
  const [fields, setFields] = useState(/** @type {Json} */ ({}));
  const [body, setBody] = useState(/** @type {Json} */ ({}));
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const once = useRef(key());
  useEffect(() => {
    get("/v1/drivers").then(({ body: found }) => {
      const names = found.drivers.map((/** @type {Json} */ one) => one.name);
      setDrivers(names);
      setDriver(names[0] ?? "");
    }, setFault);
  }, []);
  useEffect(() => {
    if (driver) get(path("drivers", driver, "properties")).then((found) => setFields(found.body), setFault);
  }, [driver]);
  const request = { ...body, driver };
  const send = () =>
    change({ method: "POST", path: "/v1/nodes", body: request, key: once.current }).then(
      (answer) => {
        close();
        say("The node is enrolled.");
        go(href(path("nodes", answer.body.name ?? answer.body.uuid)));
      },
      (error) => {
        once.current = key();
        setFault(error);
      },
    );
  const info = /** @type {(name: string) => (event: any) => void} */ (name) => (event) =>
    setBody({ ...body, driver_info: withValue(body.driver_info ?? {}, name, event.target.value) });
  const act = {
    title: "Enroll a machine", fault, button: "Enroll", ready: !!driver, send,
    request: { method: "POST", path: "/v1/nodes", body: request },
  };
  return h(ActForm, act, html`
    <div class="form-grid">
      <label
        >Name
        <input
          autocomplete="off"
          onInput=${(/** @type {any} */ event) => setBody(withValue(body, "name", event.target.value))}
        />
      </label>
      <label
        >Driver
        <select onChange=${(/** @type {any} */ event) => setDriver(event.target.value)}>
          ${drivers.map((one) => html`<option value=${one} selected=${one === driver}>${one}</option>`)}
        </select>
      </label>
      ${Object.entries(fields)
        .filter(([, about]) => /required/i.test(about))
        .map(
          ([name, about]) => html`<label key=${name} title=${about}
            >${name}
            <input
              type=${secret.test(name) ? "password" : "text"}
              autocomplete=${secret.test(name) ? "new-password" : "off"}
              onInput=${info(name)}
            />
          </label>`,
        )}
    </div>
    <details>
      <summary>Optional properties of this driver</summary>
      <dl class="small">
        ${Object.entries(fields).map(([name, about]) => html`<dt>${name}</dt><dd>${h(Text, { of: about })}</dd>`)}
      </dl>
    </details>`);
}

/** @param {Json} all @param {string} name @param {string} value "" removes the key */
function withValue(all, name, value) {
  const { [name]: _, ...rest } = all;
  return value ? { ...rest, [name]: value } : rest;
}
