/** Batches: the list, and one batch with its waves and nodes. */
import { useEffect, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { VERBS } from "../facts.js";
import { openSimple } from "../parts/actions.js";
import { confirmationOf, NUMBER, openNext, POWERS } from "../parts/bulk.js";
import { COPY, copyOf, List, LIST_MS, Listed, Shown, Skeleton, useDocument, wrong } from "../parts/read.js";
import { HALF } from "../parts/plan.js";
import {
  batchTitle, bdi, Curl, erases, expected, html, link, nodeLink, many, Result, stamp, stepName, sum, told, verb,
} from "../parts/text.js";
import { href, path, route } from "../state/route.js";

/** @typedef {Record<string, any>} Json */

const BATCH_MS = 2000;
const FIELDS_OF_BATCH =
  "uuid,name,state,wave,waves,counts,requester,created_at,ended_at,request";
const ENDED = ["done", "aborted"];

export function BatchesPage() {
  if (route.value.parts[1]) return h(Batch, { key: route.value.parts[1] });
  return html`<h1>Batches</h1>
    <p>Select nodes on the page Fleet, then press Batch.</p>
    ${h(Listed, {
      path: `/v1/batches?limit=200&fields=${FIELDS_OF_BATCH}`, each: LIST_MS, label: "Batches", of: "batches",
      head: ["Batch", "Request", "State", "Wave", "Nodes", "By", "Made", "Ended", COPY],
      row: (one) => [
        link(path("batches", one.uuid), batchTitle(one)), asks(one.request),
        h(Result, { result: one.state }), `${one.wave + 1} of ${one.waves.length}`, counted(one.counts),
        one.requester, stamp(one.created_at), stamp(one.ended_at), copyOf("batches", one.uuid),
      ],
    })}`;
}

/** @param {Json} request @returns {string} what a batch asks of each node */
function asks({ power, target, ...more }) {
  const lists = Object.values(more).filter(Array.isArray).flat();
  const names = lists.filter((one) => one?.step).map(stepName);
  return [verb(power ?? target ?? ""), more.runbook, ...names].filter(Boolean).join(", ");
}

/** @param {Json} counts */
const counted = (counts) =>
  Object.entries(counts)
    .filter(([, count]) => count)
    .map(([name, count]) => `${count} ${name}`)
    .join(", ");

function Batch() {
  const own = path("batches", route.value.parts[1] ?? "");
  const [over, setOver] = useState(false);
  const { body, fault, reload } = useDocument(own, { each: over ? 0 : BATCH_MS });
  useEffect(() => setOver(!!body?.ended_at), [body]);
  if (!body) return wrong(fault, own) ?? h(Skeleton, {});
  const failed = body.counts.failed + body.counts.refused;
  return html`${wrong(fault, own)}<header class="node-head">
      <h1>${bdi(batchTitle(body))}</h1>
      ${h(Result, { result: body.state })} ${body.request && html`<span>${bdi(asks(body.request))}</span>`}
      <span>wave ${body.wave + 1} of ${body.waves.length}</span>
      <span>${counted(body.counts)}</span> ${h(Curl, { path: `${own}?wait=50&until=done` })}
    </header>
    ${body.paused_by && html`<p class="says">Paused: ${bdi(body.paused_by)}. Left to do: ${many(body.counts.pending)}.</p>`}
    ${!ENDED.includes(body.state) && h(Controls, { own, batch: body, reload })} ${h(Waves, { own, batch: body })}
    ${!ENDED.includes(body.state) && html`<p>
      ${failed} failed or refused; ${many(body.failures_left, "more failure")} allowed.
      ${body.eta && ` ${expected({ ends_at: body.eta })}`}
    </p>`}
    ${h(BatchNodes, { own, batch: body })}`;
}

/** @param {{own: string, batch: Json, reload: () => void}} props */
function Controls({ own, batch, reload }) {
  const { pending } = batch.counts;
  const rest = many(pending);
  const { power, target } = batch.request ?? {};
  const asked = power ?? target;
  const used = POWERS.includes(asked) || VERBS.some((one) => one.target === asked && one.from.includes("active"));
  /** @param {string} label @param {Json} body @param {string} kind @param {string} says */
  const act = (label, body, kind, says) => () =>
    openSimple({
      title: label.replace(/\w+/, "$& this batch"), kind, method: "PUT", path: `${own}/state`, body, of: own, says,
      name: String(pending), what: NUMBER, on: rest, button: label, reload,
    });
  const why = batch.paused_by ? `Paused: ${batch.paused_by}. ` : "";
  return html`<div class="actions">
    ${batch.state === "running"
      ? html`<button onClick=${act("Pause", { target: "pause" }, "none", `Nothing starts on ${rest} until you resume it.`)}>Pause…</button>`
      : html`<button onClick=${act("Resume", { target: "resume" }, asked ? confirmationOf(asked, used) : "name",
          `${why}${asked ? verb(asked) : "The request"} goes on with ${rest}.`)}>Resume…</button>`}
    <button onClick=${act("Abort", { target: "abort" }, "tick", `Skips ${rest}.`)}>Abort…</button>
    <button onClick=${act("Abort with its runs", { target: "abort", runs: "abort" }, "tick",
      `Skips ${rest}; runs under way end as soon as they can. ${HALF}`)}>
      Abort with its runs…
    </button>
  </div>`;
}

/** @param {{own: string, batch: Json}} props */
function Waves({ own, batch }) {
  const { pending, starting, running, skipped, failed, refused } = batch.counts;
  const wrong = failed + refused;
  const { body } = useDocument(wrong ? `${own}/nodes?limit=1000&result=failed,refused` : null, { again: wrong });
  const over = sum(batch.waves) - pending - starting - running - skipped;
  let before = 0;
  return html`<ol class="waves">
    ${batch.waves.map((/** @type {number} */ size, /** @type {number} */ at) => {
      const ended = Math.max(0, Math.min(size, over - before));
      before += size;
      const bad = body?.nodes.filter((/** @type {Json} */ one) => one.wave === at).length;
      const more = body?.next && bad ? " or more" : "";
      return html`<li class=${bad ? "failed" : ""} aria-current=${at === batch.wave ? "step" : undefined}>
        wave ${at + 1} <progress aria-label=${`wave ${at + 1}`} max=${size} value=${ended} /> ${bad && !more ? `${ended - bad} done, ${bad} failed` : `${ended}/${size}${more && `, ${bad} or more failed`}`}
      </li>`;
    })}
  </ol>`;
}

/** @param {{own: string, batch: Json}} props */
function BatchNodes({ own, batch }) {
  const result = route.value.query.get("result") ?? "";
  const list = `${own}/nodes?limit=500${result ? `&result=${encodeURIComponent(result)}` : ""}`;
  const draw = (/** @type {Json} */ body) => html`<div class="filters">
      ${["", ...Object.keys(batch.counts).filter((name) => batch.counts[name] || name === result)].map(
        (name) => html`<a
          class="button"
          aria-current=${name === result ? "true" : undefined}
          href=${href(own, name ? { result: name } : {})}
          >${name || "all"} ${name ? batch.counts[name] : ""}</a
        >`,
      )}
      ${batch.counts.failed > 0 &&
      html`<button onClick=${() => openNext(batch, "failed", body.nodes, "retry")}>Retry the failed…</button>`}
      ${ENDED.includes(batch.state) && batch.request?.target === "manage" && batch.counts.done > 0 &&
      html`<button onClick=${() => openNext(batch, "done", body.nodes, "clean")}>Clean the managed…</button>`}
    </div>
    ${h(List, {
      label: "Nodes of the batch",
      head: ["Node", "Wave", "Result", "Error", "Begun", "Ended", "Run"],
      rows: body.nodes.map((/** @type {Json} */ one) => nodeRow(one, erases(batch.request?.target))),
    })}`;
  return h(Shown, { path: list, again: JSON.stringify(batch.counts), draw });
}

/** @param {Json} one @param {boolean} erasing whether its run may erase disks */
const nodeRow = (one, erasing) => [
  nodeLink(one),
  one.wave + 1, h(Result, { result: one.result }), told(one.error?.text ?? one.error, one),
  stamp(one.started_at), stamp(one.ended_at),
  one.run && html`${link(path("nodes", one.uuid, "runs", one.run), "run")}
    ${erasing && html` ${link(path("nodes", one.uuid, "erasures"), "erasures")}`}`,
];
