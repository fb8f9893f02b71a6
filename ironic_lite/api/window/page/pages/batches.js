/** Batches: the list, and one batch with its waves, its budget and its nodes. */
import { h } from "../vendor/preact.js";
import { clockTime } from "../state/clock.js";
import { prefs } from "../state/prefs.js";
import { href, path, route } from "../state/route.js";
import { Result } from "../parts/chip.js";
import { Curl } from "../parts/copy.js";
import { Simple } from "../parts/actions.js";
import { openBatch } from "../parts/bulk.js";
import { show } from "../parts/dialog.js";
import { FaultBox, Skeleton, useDocument } from "../parts/read.js";
import { List, Shown } from "../parts/tabs.js";
import { html, Stamp, Text } from "../parts/text.js";

/** @typedef {Record<string, any>} Json */

const AGAIN_MS = 2000;
const ENDED = ["done", "aborted"];

export function BatchesPage() {
  if (route.value.parts[1]) return h(Batch, { key: route.value.parts[1] });
  const draw = (/** @type {Json} */ body) =>
    h(List, {
      label: "Batches",
      head: ["Name", "State", "Wave", "Nodes", "By", "Made", "Ended"],
      rows: body.batches.map((/** @type {Json} */ one) => [
        html`<a href=${href(path("batches", one.uuid))}>${h(Text, { of: one.name ?? one.uuid })}</a>`,
        h(Result, { result: one.state }), `${one.wave + 1} of ${one.waves.length}`, counted(one.counts),
        h(Text, { of: one.requester ?? "" }), h(Stamp, { at: one.created_at }), h(Stamp, { at: one.ended_at }),
      ]),
    });
  return html`<h1>Batches</h1>
    <p>Select nodes on the page Fleet, then press Batch.</p>
    ${h(Shown, { path: "/v1/batches?limit=200", draw })}`;
}

/** @param {Json} counts */
const counted = (counts) =>
  Object.entries(counts)
    .filter(([, count]) => count)
    .map(([name, count]) => `${count} ${name}`)
    .join("  ");

function Batch() {
  const own = path("batches", route.value.parts[1] ?? "");
  const { body, fault, reload } = useDocument(own, { each: AGAIN_MS });
  if (fault) return h(FaultBox, { fault, path: own });
  if (!body) return h(Skeleton, {});
  const failed = body.counts.failed + body.counts.refused;
  return html`<header class="node-head">
      <h1>${h(Text, { of: body.name ?? body.uuid })}</h1>
      ${h(Result, { result: body.state })}
      <span>wave ${body.wave + 1} of ${body.waves.length}</span>
      <span>${counted(body.counts)}</span> ${h(Curl, { path: `${own}?wait=50&until=done` })}
    </header>
    ${body.paused_by && html`<p class="says">Paused: ${h(Text, { of: body.paused_by })}</p>`}
    ${!ENDED.includes(body.state) && h(Controls, { own, batch: body, reload })} ${h(Waves, { batch: body })}
    <p>
      ${failed} failed or refused; ${body.failures_left} more are allowed.
      ${body.eta && ` ~${clockTime(body.eta.ends_at ?? body.eta, prefs.value.utc)}`}
    </p>
    ${h(BatchNodes, { own, batch: body })}`;
}

/** @param {{own: string, batch: Json, reload: () => void}} props */
function Controls({ own, batch, reload }) {
  /** @param {string} label @param {Json} body @param {string} kind */
  const act = (label, body, kind) => () =>
    show(() =>
      h(Simple, /** @type {any} */ ({
        title: `${label} this batch`, kind, method: "PUT", path: `${own}/state`, body,
        button: label, reload,
      })),
    );
  return html`<div class="actions">
    ${batch.state === "running"
      ? html`<button onClick=${act("Pause", { target: "pause" }, "none")}>Pause…</button>`
      : html`<button onClick=${act("Resume", { target: "resume" }, "none")}>Resume…</button>`}
    <button onClick=${act("Abort", { target: "abort" }, "tick")}>Abort…</button>
    <button onClick=${act("Abort with its runs", { target: "abort", runs: "abort" }, "tick")}>
      Abort with its runs…
    </button>
  </div>`;
}

/** @param {{batch: Json}} props */
function Waves({ batch }) {
  const all = batch.waves.reduce((/** @type {number} */ sum, /** @type {number} */ one) => sum + one, 0);
  const over = all - (batch.counts.pending + batch.counts.starting + batch.counts.running || 0);
  let before = 0;
  return html`<ol class="waves">
    ${batch.waves.map((/** @type {number} */ size, /** @type {number} */ at) => {
      const done = Math.max(0, Math.min(size, over - before));
      before += size;
      return html`<li aria-current=${at === batch.wave ? "step" : undefined}>
        wave ${at + 1} <progress max=${size} value=${done} /> ${done}/${size}
      </li>`;
    })}
  </ol>`;
}

/** @param {{own: string, batch: Json}} props */
function BatchNodes({ own, batch }) {
  const result = route.value.query.get("result") ?? "";
  const list = `${own}/nodes?limit=500${result ? `&result=${encodeURIComponent(result)}` : ""}`;
  const draw = (/** @type {Json} */ body) => html`<div class="filters">
      ${["", ...Object.keys(batch.counts)].map(
        (name) => html`<a
          class="button"
          aria-current=${name === result ? "true" : undefined}
          href=${href(own, name ? { result: name } : {})}
          >${name || "all"} ${name ? batch.counts[name] : ""}</a
        >`,
      )}
      ${batch.counts.failed > 0 && h(RetryFailed, { nodes: body.nodes })}
    </div>
    ${h(List, {
      label: "Nodes of the batch",
      head: ["Node", "Wave", "Result", "Error", "Begun", "Ended", "Run"],
      rows: body.nodes.map((/** @type {Json} */ one) => row(one)),
    })}`;
  return h(Shown, { path: list, again: JSON.stringify(batch.counts), draw });
}

/** @param {Json} one */
const row = (one) => [
  html`<a href=${href(path("nodes", one.name ?? one.uuid))}>${h(Text, { of: one.name ?? one.uuid })}</a>`,
  one.wave + 1, h(Result, { result: one.result }), h(Text, { of: one.error?.text ?? one.error ?? "" }),
  h(Stamp, { at: one.started_at }), h(Stamp, { at: one.ended_at }),
  one.run && html`<a href=${href(path("nodes", one.uuid, "runs", one.run))}>run</a>`,
];

/** @param {{nodes: Json[]}} props */
function RetryFailed({ nodes }) {
  const failed = nodes.filter((one) => one.result === "failed");
  const open = () =>
    openBatch(failed.map((one) => ({ uuid: one.uuid, name: one.name, provision_state: "clean failed" })));
  return html`<button onClick=${open}>Retry the failed…</button>`;
}
