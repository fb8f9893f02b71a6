/** What needs somebody: failed, overdue and held nodes, paused batches, and conductors that are down. */
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { openLift } from "./holds.js";
import { openStop, openVerb } from "./plan.js";
import { useDocument } from "./read.js";
import { advice, Ago, batchTitle, bdi, FAILED_STATES, html, link, many, nameOf, nodeAddress, nodeLink, OVERDUE, State, stopOf, sum, told, verb } from "./text.js";
import { fleet, kindOf } from "../state/nodes.js";
import { href, path } from "../state/route.js";
import { get, may, passing } from "../wire/api.js";

const EACH = 5;
/** Failed nodes whose `why` is read to find those that need a person. */
const MOST_WHYS = 50;
const READ_MS = 30000;
const REPEAT_MS = 5000;

/** @typedef {Record<string, any>} Json */

/** @param {Json} node @returns {string} why its last run has failed */
export function failureOf(node) {
  const { error, code } = fleet.failed.value.get(node.uuid) ?? {};
  return error?.cause?.text ?? error?.text ?? code ?? "";
}

/** @param {{brief: boolean}} props `brief`: only the counts, until all are asked for */
export function Attention({ brief }) {
  const [all, setAll] = useState(false);
  const down = useRead("baremetal:conductor:get", "/v1/conductors", "conductors").filter((one) => !one.alive);
  const paused = useRead("baremetal:batch:list", "/v1/batches?state=paused&fields=uuid,name,waves,request,paused_by", "batches");
  void fleet.slowTick.value;
  const failedHere = nodesWhere((node) => kindOf(node) === "fail");
  const overdueHere = nodesWhere((node) => fleet.overdue.value.has(node.uuid));
  const heldHere = nodesWhere((node) => fleet.holds.value.has(node.uuid), (node) => fleet.holds.value.get(node.uuid)?.[0].created_at);
  const cut = all ? Infinity : brief ? 0 : EACH;
  const whys = /** @type {Map<string, Json>} */ (useRef(new Map()).current);
  const whyOf = /** @param {Json} node */ (node) => whys.get(momentOf(node));
  /** @type {Json[]} */
  const failedRows = [];
  /** @type {Json[]} */
  const retriedRows = [];
  for (const node of failedHere.slice(0, all ? cut : MOST_WHYS)) {
    if (failedRows.length >= cut) break;
    (whyOf(node)?.waits_for?.what === "retry" ? retriedRows : failedRows).push(node);
  }
  const overdueRows = overdueHere.slice(0, cut);
  useWhys(whys, [...failedRows, ...retriedRows, ...overdueRows]);
  // Numbers of the whole fleet, also when only some of its nodes are held here.
  const counted = fleet.counts.value;
  const failed = counted
    ? sum(FAILED_STATES.map((state) => counted.get(state) ?? 0))
    : failedHere.length;
  const overdue = fleet.overdue.value.size;
  const held = fleet.holds.value.size;
  const counts = [
    failed && html`<a href=${href("/v1/nodes", { provision_state: FAILED_STATES.join() })}>▲ ${failed} failed</a> `,
    overdue && html`<a href="#/v1/runs?overdue=true">◷ ${overdue} overdue</a> `,
    held && html`<a href="#/v1/nodes?held=true">■ ${held} held</a> `,
    paused.length && html`<a href="#/v1/batches">■ ${paused.length} paused</a> `,
    down.length && html`<a href="#/v1/doctor">! ${many(down.length, "conductor")} down</a>`,
  ].filter(Boolean);
  if (!counts.length) return html`<p class="attention none">Nothing needs attention.</p>`;
  const rowOf = /** @param {Json} node */ (node) => failedRow(node, whyOf(node));
  const groups = /** @type {[string, any[]][]} */ ([
    ["Needs a person", [
      ...overdueRows.map((node) => overdueRow(node, whyOf(node))),
      ...failedRows.map(rowOf),
      ...paused.map((one) => html`<li>${link(path("batches", one.uuid), batchTitle(one))}
        <span class="says">■ This batch is paused: ${bdi(one.paused_by)}.</span></li>`),
      ...down.map((one) => html`<li>${link(path("conductors", one.hostname), one.hostname)}
        <span class="says">! This conductor gives no sign of life.</span>
        <a class="button" href="#/v1/doctor">Doctor</a></li>`),
    ]],
    ["Goes on by itself", retriedRows.slice(0, cut).map(rowOf)],
    ["Held", heldHere.slice(0, cut).map(heldRow)],
  ]);
  return html`<section class="attention" aria-labelledby="attention-title">
    <h2 id="attention-title">Needs attention</h2>
    <span class="counts">${counts}</span>
    ${(brief || Math.max(failedHere.length, overdueHere.length, heldHere.length) > EACH) &&
    html`<button class="quiet" onClick=${() => setAll(!all)}>${all ? "show fewer" : "show all"}</button>`}
    ${(all || !brief) && html`<div>
      ${overdueRows.length > 0 && html`<p class="small">${OVERDUE}</p>`}
      ${groups.map(([title, rows]) => rows.length > 0 && html`<h3>${title}</h3><ul aria-label=${title}>${rows}</ul>`)}
    </div>`}
  </section>`;
}

/** @param {(node: Json) => boolean} accepts @param {(node: Json) => string} [at] a time; the newest is the first */
function nodesWhere(accepts, at = (node) => node.provision_updated_at) {
  return [...fleet.nodes.values()]
    .filter(accepts)
    .sort((a, b) => String(at(b)).localeCompare(String(at(a))));
}

/** @param {string} rule @param {string} from @param {string} name @returns {Json[]} a list, read now and then */
function useRead(rule, from, name) {
  const [allowed, setAllowed] = useState(false);
  useEffect(() => void may(rule).then(setAllowed), []);
  return useDocument(allowed ? from : null, { each: READ_MS }).body?.[name] ?? [];
}

/** @param {Json} node @returns {string} what one `why` is of: a node in a state, at a step, with its holds */
const momentOf = ({ uuid, provision_state: state, provision_updated_at: at, maintenance }) =>
  [uuid, state, at, maintenance, stopOf(fleet.under.value.get(uuid)), fleet.under.value.get(uuid)?.place?.ordinal,
    fleet.holds.value.get(uuid)?.length].join();

/**
 * Read the `why` of nodes once for each state and step that they come to, and forget those of others.
 * @param {Map<string, Json>} whys by moment; empty while it is read @param {Json[]} nodes
 */
function useWhys(whys, nodes) {
  const [, draw] = useState({});
  const asked = new Set(nodes.map(momentOf));
  useEffect(() => () => whys.clear(), []);
  useEffect(() => {
    for (const one of whys.keys()) if (!asked.has(one)) whys.delete(one);
    for (const one of asked) {
      /** @param {Json} mine what is known, unless another has taken its place */
      const read = (mine) => {
        if (whys.get(one) !== mine) return;
        if (mine.says && document.hidden) return void setTimeout(read, READ_MS, mine);
        get(path("nodes", one.slice(0, 36), "why")).then(({ body }) => {
          if (whys.get(one) === mine) whys.set(one, body);
          draw({});
          // The service may give a retry up without an event.
          if (body.waits_for?.what === "retry") setTimeout(read, READ_MS, body);
        }, (fault) => passing(fault) && setTimeout(read, REPEAT_MS, mine));
      };
      if (whys.has(one)) continue;
      const none = {};
      whys.set(one, none);
      read(none);
    }
  });
}

/**
 * A node that needs somebody: its state, why, since when, the act to use.
 * @param {Json} node @param {string | undefined} at @param {any} mark @param {string} says @param {Json | undefined} why
 * @param {any} label @param {() => void} act
 */
const row = (node, at, mark, says, why, label, act) => html`<li key=${node.uuid}>
  ${nodeLink(node)} ${h(State, { state: node.provision_state })}
  <span class="says" title=${says}>${mark} ${bdi(says)} <b>${stopOf(fleet.under.value.get(node.uuid))}</b> ${advice(why)}</span> ${h(Ago, { at })}
  ${label && html`<button onClick=${act}>${label}…</button>`}
  <a class="button" href=${nodeAddress(node)}>Why</a>
</li>`;

/** @param {Json | undefined} why @param {...string} wanted @returns {string} the first of these verbs that is possible */
const possible = (why, ...wanted) =>
  wanted.find((target) => why?.verbs?.some((/** @type {Json} */ one) => one.target === target && !one.refused)) ?? "";

/** @param {Json} node @param {Json | undefined} why */
function failedRow(node, why) {
  // Another verb could lose an instance.
  const target = possible(why, "retry", why?.run?.verb, "manage");
  const says = why?.says ? told(why.says) : failureOf(node);
  return row(node, node.provision_updated_at, "", says, why, target && verb(target), () => openVerb(node, target));
}

/** @param {Json} node @param {Json | undefined} why */
function overdueRow(node, why) {
  // A stop waits for the end of the step.
  const abort = possible(why, "abort");
  return row(node, node.provision_updated_at, html`<b>◷ Overdue</b>`, told(why?.says), why, why?.run && verb(abort || "stop"),
    () => abort ? openVerb(node, abort) : openStop({ own: path("nodes", node.uuid), name: nameOf(node) }));
}

/** @param {Json} node */
function heldRow(node) {
  const holds = fleet.holds.value.get(node.uuid) ?? [];
  const says = holds.map((one) => `${one.kind}: ${one.reason}`).join("; ");
  return row(node, holds[0]?.created_at, html`<b class="held-mark">■ HELD</b>`, says, undefined, "Lift hold",
    () => openLift({ own: path("nodes", node.uuid), name: nameOf(node), holds }));
}
