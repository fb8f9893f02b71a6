/** The form of a hold: kind, reason, end. */
import { html } from "./text.js";

/** @typedef {Record<string, any>} Json */

const KINDS = {
  legal: "refuses to erase and to forget",
  hardware: "refuses to deploy",
  freeze: "refuses verbs and power",
};

/** @param {{body: Json, onChange: (body: Json) => void}} props */
export function HoldForm({ body, onChange }) {
  const put = /** @type {(name: string) => (event: any) => void} */ (name) => (event) =>
    onChange({ ...body, [name]: event.target.value });
  const until = /** @param {any} event */ (event) => {
    const { until: _, ...rest } = body;
    const at = event.target.value;
    onChange(at ? { ...rest, until: new Date(at).toISOString() } : rest);
  };
  return html`<div class="form-grid">
    <label
      >Kind
      <select onChange=${put("kind")}>
        ${Object.entries(KINDS).map(
          ([kind, what]) => html`<option value=${kind} selected=${kind === body.kind}>${kind}: ${what}</option>`,
        )}
      </select>
    </label>
    <label>Reason <input required value=${body.reason} onInput=${put("reason")} /></label>
    <label>Until (optional) <input type="datetime-local" onInput=${until} /></label>
  </div>`;
}
