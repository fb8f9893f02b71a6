/** The tabs of a node below its run. */
import { h } from "../vendor/preact.js";
import { useState } from "../vendor/hooks.js";
import { href, path } from "../state/route.js";
import { change } from "../wire/changes.js";
import { Fault } from "../wire/faults.js";
import { Simple } from "./actions.js";
import { Result } from "./chip.js";
import { Curl, say } from "./copy.js";
import { show } from "./dialog.js";
import { FaultBox, Skeleton, useDocument } from "./read.js";
import { Ago, html, Stamp, Text } from "./text.js";
import { duration } from "../state/clock.js";

/** @typedef {Record<string, any>} Json */

/**
 * A document with its faults, then what `draw` makes of it.
 * @param {{path: string, again?: unknown, draw: (body: any) => any}} props
 */
export function Shown({ path: from, again, draw }) {
  const { body, fault } = useDocument(from, { again });
  if (fault) return h(FaultBox, { fault, path: from });
  if (!body) return h(Skeleton, {});
  return html`<p class="tools">${h(Curl, { path: from })}</p>
    ${draw(body)}`;
}

/**
 * @param {{head: string[], rows: any[][], label: string}} props
 */
export function List({ head, rows, label }) {
  if (!rows.length) return html`<p>There are none.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead>
        <tr>${head.map((one) => html`<th scope="col">${one}</th>`)}</tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

/** @param {Json} run */
export const runRow = (run) => [
  html`<a href=${href(path("nodes", run.node_uuid, "runs", run.uuid))}>${h(Text, { of: run.verb })}</a>`,
  h(Result, { result: run.state }),
  h(Stamp, { at: run.started_at }),
  run.duration_seconds == null ? h(Ago, { at: run.started_at }) : duration(run.duration_seconds),
  h(Text, { of: run.requester ?? "" }),
  h(Text, { of: run.error?.cause?.text ?? run.error?.text ?? "" }),
];
export const RUN_HEAD = ["Verb", "Result", "Begun", "Took", "By", "Error"];

/** @param {any} props */
export function Runs({ own, turn }) {
  const draw = (/** @type {Json} */ body) => h(List, { label: "Runs", head: RUN_HEAD, rows: body.runs.map(runRow) });
  return h(Shown, { path: `${own}/runs?limit=50`, again: turn, draw });
}

/** @param {any} props */
export function Ports({ own }) {
  const draw = (/** @type {Json} */ body) =>
    h(List, {
      label: "Ports",
      head: ["Address", "Name", "PXE", "Physical network", "Switch"],
      rows: body.ports.map((/** @type {Json} */ port) => [
        html`<code>${h(Text, { of: port.address })}</code>`, h(Text, { of: port.name ?? "" }),
        port.pxe_enabled ? "yes" : "no", h(Text, { of: port.physical_network ?? "" }),
        h(Text, { of: port.local_link_connection?.switch_id ?? "" }),
      ]),
    });
  return h(Shown, { path: `${own}/ports?detail=true`, draw });
}

/** @param {any} props */
export function Inventory({ own }) {
  return h(Shown, { path: `${own}/inventory`, draw: (body) => h(Tree, { of: body }) });
}

/** @param {{of: unknown}} props a JSON value as a tree */
export function Tree({ of }) {
  if (of === null || typeof of !== "object") return html`<code>${h(Text, { of: of ?? "null" })}</code>`;
  const entries = Object.entries(of);
  if (!entries.length) return html`<code>${Array.isArray(of) ? "[]" : "{}"}</code>`;
  return html`<dl class="tree">
    ${entries.map(
      ([name, value]) => html`<dt>${h(Text, { of: name })}</dt>
        <dd>${h(Tree, { of: value })}</dd>`,
    )}
  </dl>`;
}

/** @param {any} props */
export function Fields({ node, own, reload }) {
  const [text, setText] = useState("");
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  if (!node.body) return h(Skeleton, {});
  const patch = parsed(text);
  const send = () =>
    change({ method: "PATCH", path: own, body: patch, tag: node.tag }).then(() => {
      setText("");
      setFault(null);
      say("The node is changed.");
      reload();
    }, setFault);
  return html`<details>
      <summary>Change fields</summary>
      <label class="block"
        >JSON Patch (RFC 6902)
        <textarea
          rows="3"
          spellcheck="false"
          placeholder='[{"op": "replace", "path": "/resource_class", "value": "gpu"}]'
          value=${text}
          onInput=${(/** @type {any} */ event) => setText(event.target.value)}
        />
      </label>
      ${fault && h(FaultBox, { fault })}
      ${patch && h(Curl, { method: "PATCH", path: own, body: patch, headers: { "If-Match": node.tag } })}
      <button disabled=${!patch} onClick=${() => void send()}>Send the patch</button>
    </details>
    <p class="tools">${h(Curl, { path: own })}</p>
    ${h(Tree, { of: withoutLinks(node.body) })}`;
}

/** @param {Json} node */
const withoutLinks = (node) =>
  Object.fromEntries(Object.entries(node).filter(([, value]) => !linked(value)));

/** @param {any} value */
const linked = (value) => Array.isArray(value) && value[0]?.href !== undefined;

/** @param {string} text @returns {any} null if it is no JSON list */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** @param {any} props */
export function History({ own, turn }) {
  const draw = (/** @type {Json} */ body) =>
    h(List, {
      label: "History",
      head: ["At", "Severity", "Event"],
      rows: body.history.map((/** @type {Json} */ one) => [
        h(Stamp, { at: one.created_at }), one.severity, h(Text, { of: one.event }),
      ]),
    });
  return h(Shown, { path: `${own}/history?limit=100`, again: turn, draw });
}

/** @param {any} props */
export function Holds({ own, reload, turn }) {
  /** @param {Json} hold */
  const end = (hold) =>
    show(() =>
      h(Simple, /** @type {any} */ ({
        title: `End the hold (${hold.kind}): ${hold.reason}`, kind: "tick", method: "DELETE",
        path: `${own}/holds/${hold.uuid}?reason=ended+in+the+window`, button: "End the hold", reload,
      })),
    );
  const draw = (/** @type {Json} */ body) =>
    h(List, {
      label: "Holds",
      head: ["Kind", "Reason", "Blocks", "Since", "Until", "By", ""],
      rows: body.holds.map((/** @type {Json} */ hold) => [
        hold.kind, h(Text, { of: hold.reason }), hold.blocks.join(", "), h(Stamp, { at: hold.created_at }),
        h(Stamp, { at: hold.until }), h(Text, { of: hold.created_by ?? "" }),
        hold.ended_at ? "ended" : html`<button onClick=${() => end(hold)}>End…</button>`,
      ]),
    });
  return h(Shown, { path: `${own}/holds?ended=true`, again: turn, draw });
}

/** @param {any} props */
export function Erasures({ own }) {
  return h(Shown, { path: `${own}/erasures`, draw: (body) => h(ErasureList, { body }) });
}

/** @param {{body: Json}} props */
export function ErasureList({ body }) {
  return h(List, {
    label: "Erasure records",
    head: ["At", "Node", "Result", "Level", "Disks", "Record"],
    rows: body.erasures.map((/** @type {Json} */ one) => [
      h(Stamp, { at: one.at }), h(Text, { of: one.node_name ?? one.node_uuid }), h(Text, { of: one.result }),
      h(Text, { of: one.level ?? "" }), h(Text, { of: (one.serials ?? []).join(", ") }),
      html`<a href=${href(path("erasures", one.uuid))}>${one.signed === false ? "unsigned" : "show"}</a>`,
    ]),
  });
}

/** @param {any} props */
export function Bmc({ own, why }) {
  const parts = ["states", "management/boot_device", "vmedia", "management/indicators"];
  const refused = (why.orders ?? []).filter((/** @type {Json} */ one) => one.refused);
  return html`${refused.map(
    (/** @type {Json} */ one) => html`<p>${one.order}: ${h(Text, { of: one.refused.text })}</p>`,
  )}
  ${parts.map(
    (part) => html`<details open=${part === "states"}>
      <summary>${part}</summary>
      ${h(Shown, { key: part, path: `${own}/${part}`, draw: (body) => h(Tree, { of: body ?? {} }) })}
    </details>`,
  )}`;
}
