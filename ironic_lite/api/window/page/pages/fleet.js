// The nodes with their states, read again every 5 seconds.
import { html } from "../parts/html.js";
import { h } from "../vendor/preact.js";
import { useEffect } from "../vendor/hooks.js";
import { useSignal } from "../vendor/signals.js";
import { read } from "../wire/api.js";

const FIELDS = "uuid,name,provision_state,power_state,maintenance,driver";
const EVERY_MS = 5000;

/** @param {{ node: any }} props */
function Row({ node }) {
  return html`<tr><td><bdi>${node.name ?? node.uuid}</bdi></td><td>${node.provision_state}</td>
    <td>${node.power_state ?? "unknown"}</td><td>${node.maintenance ? "yes" : "no"}</td>
    <td>${node.driver}</td></tr>`;
}

export function Fleet() {
  const nodes = useSignal(/** @type {any[] | null} */ (null));
  const fault = useSignal("");
  useEffect(() => {
    let timer = 0;
    let gone = false;
    async function refresh() {
      try {
        nodes.value = (await read(`/nodes?fields=${FIELDS}`)).nodes;
        fault.value = "";
      } catch (error) {
        fault.value = String(error);
      }
      if (!gone) timer = setTimeout(refresh, EVERY_MS);
    }
    refresh();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, []);
  if (fault.value) return html`<p role="alert">The nodes cannot be read: ${fault.value}</p>`;
  if (nodes.value === null) return html`<p>Loading</p>`;
  if (!nodes.value.length) return html`<p>No node is enrolled.</p>`;
  return html`<div class="fleet"><table><thead><tr><th>Name</th><th>State</th><th>Power</th>
    <th>Maintenance</th><th>Driver</th></tr></thead>
    <tbody>${nodes.value.map((node) => h(Row, { node, key: node.uuid }))}</tbody></table></div>`;
}
