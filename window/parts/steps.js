/** The steps that a verb takes: ready choices, steps of the node, a runbook; JSON for experts. */
import { VERBS } from "../facts.js";
import { useState } from "../vendor/hooks.js";
import { useDocument } from "./read.js";
import { bdi, choice, html, stepName, typed, visible } from "./text.js";
import { path } from "../state/route.js";
import { parsed } from "../wire/api.js";

/** @typedef {Record<string, any>} Json */

/** Lists of steps that verbs take. @type {Record<string, string>} */
const STEPS = {
  clean: "clean_steps", service: "service_steps", active: "deploy_steps", rebuild: "deploy_steps",
};

/** Choices of a clean that need no knowledge of steps. */
const READY = /** @type {const} */ ([
  ["Erase all disks", { interface: "deploy", step: "erase_devices" }],
  ["Erase metadata only", { interface: "deploy", step: "erase_devices_metadata" }],
]);

/** @param {string} target @param {Json} options @returns {string} what is to be chosen first; "" for nothing */
export function missing(target, options) {
  const needs = VERBS.find((one) => one.target === target)?.needs ?? [];
  const chosen = needs.some((name) => options[name]?.length);
  if (!needs.length || chosen) return "";
  return needs.includes("runbook") ? "Add at least one step, or choose a runbook." : "Enter a password.";
}

/**
 * The steps of a verb.
 * @param {{node?: string | undefined, target: string, onChange: (body: Json) => void}} props
 *   `onChange` gets the part of the request's body with the list or the runbook
 */
export function StepsField({ node, target, onChange }) {
  const name = STEPS[target];
  const [text, setText] = useState("");
  const [runbook, setRunbook] = useState("");
  const listed = name === "clean_steps" && node;
  const { body } = useDocument(listed ? `${path("nodes", node)}/cleaning/steps` : null);
  const books = useDocument(name && name !== "deploy_steps" ? "/v1/runbooks" : null).body?.runbooks ?? [];
  const read = parsed(text);
  if (!name) return null;
  /** @param {string} value */
  const put = (value) => {
    setText(value);
    setRunbook("");
    const list = parsed(value);
    if (list !== null) onChange(list ? { [name]: list } : {});
  };
  const chosen = /** @type {Json[]} */ (Array.isArray(read) ? read : []);
  /** @param {Json[]} list */
  const putList = (list) => put(list.length ? `[${list.map((one) => JSON.stringify(one)).join(",\n ")}]` : "");
  const add = /** @param {Json} step */ (step) => putList([...chosen, step]);
  const known = /** @type {Json[]} */ (Array.isArray(body) ? body : []); // 202: none is known yet
  const pick = /** @param {any} event */ ({ target: list }) => {
    const step = known[list.selectedIndex - 1];
    list.selectedIndex = 0;
    if (step) add(request(step));
  };
  const choose = /** @param {string} book */ (book) => {
    setText("");
    setRunbook(book);
    onChange(book ? { runbook: book } : {});
  };
  return html`<div class="actions">
      ${target === "clean" && READY.map(([label, step]) => html`<button type="button" onClick=${() => add(step)}>${label}</button>`)}
      ${known.length > 0 && html`<label>Add a step <select onChange=${pick}>
        <option value="">choose…</option>
        ${known.map((one) => html`<option>${stepName(one)}</option>`)}
      </select></label>`}
      ${books.length > 0 && choice("Runbook", runbook, choose, [
        ["", "none"], ...books.map((/** @type {Json} */ one) => [one.name, one.name]),
      ])}
    </div>
    ${chosen.length > 0 && html`<ol class="chosen" aria-label="Chosen steps">
      ${chosen.map((one, at) => html`<li>
        ${bdi(stepName(one))} <button type="button" class="quiet" aria-label=${`Remove ${visible(stepName(one))}`}
          onClick=${() => putList(chosen.filter((_, place) => place !== at))}>×</button>
      </li>`)}
    </ol>`}
    <details>
      <summary>${name === "deploy_steps" ? "More steps" : "Steps"}, as JSON</summary>
      <textarea
        rows="4"
        spellcheck="false"
        aria-label="Steps, as JSON"
        placeholder='[{"interface": "deploy", "step": "erase_devices"}]'
        value=${text}
        onInput=${typed(put)}
      />
    </details>
    ${read === null && html`<span class="wrong" role="alert">This is not JSON.</span>`}`;
}

/** @param {Json} step that a node offers @returns {Json} a request for it; null stands for a value to enter */
const request = ({ interface: of, step, args = [] }) => {
  const needed = args.filter((/** @type {Json} */ one) => one.required);
  const values = needed.map((/** @type {Json} */ one) => [one.name, null]);
  return { interface: of, step, ...(needed.length && { args: Object.fromEntries(values) }) };
};
