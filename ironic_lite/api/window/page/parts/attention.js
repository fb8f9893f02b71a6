/** What needs somebody: failed, overdue and held nodes, paused batches, and conductors that are down. */
import { useEffect, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { openLift } from "./holds.js";
import { openStop, openVerb } from "./plan.js";
import { Ago, batchTitle, bdi, FAILED_STATES, html, link, nameOf, nodeAddress, nodeLink, State, told, verb } from "./text.js";
import { fleet, kindOf } from "../state/nodes.js";
import { href, path } from "../state/route.js";
import { get, may } from "../wire/api.js";

const EACH = 5;
const READ_MS = 30000;

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
  const rows = {
    failed: nodesWhere((node) => kindOf(node) === "fail"),
    overdue: nodesWhere((node) => fleet.overdue.value.has(node.uuid)),
    held: nodesWhere((node) => fleet.holds.value.has(node.uuid)),
  };
  const shown = rows.failed.length + rows.overdue.length + rows.held.length;
  // Numbers of the whole fleet, also when only some of its nodes are held here.
  const counted = fleet.counts.value;
  const failed = counted
    ? FAILED_STATES.reduce((sum, state) => sum + (counted.get(state) ?? 0), 0)
    : rows.failed.length;
  const overdue = fleet.overdue.value.size;
  const held = fleet.holds.value.size;
  const counts = [
    failed && html`<a href=${href("/v1/nodes", { provision_state: FAILED_STATES.join(",") })}>▲ ${failed} failed</a> `,
    overdue && html`<a href="#/v1/runs?overdue=true">◷ ${overdue} overdue</a> `,
    held && html`<a href="#/v1/nodes?held=true">■ ${held} held</a> `,
    paused.length && html`<a href="#/v1/batches">■ ${paused.length} paused</a> `,
    down.length && html`<a href="#/v1/doctor">! ${down.length} conductor${down.length > 1 ? "s" : ""} down</a>`,
  ].filter(Boolean);
  if (!counts.length) return html`<p class="attention none">Nothing needs attention.</p>`;
  const cut = all ? shown : EACH;
  return html`<section class="attention" aria-labelledby="attention-title">
    <h2 id="attention-title">Needs attention</h2>
    <span class="counts">${counts}</span>
    ${(brief || shown > 2 * EACH) &&
    html`<button class="quiet" onClick=${() => setAll(!all)}>${all ? "show fewer" : "show all"}</button>`}
    ${(all || !brief) && html`<ul>
      ${rows.overdue.slice(0, cut).map((node) => h(Overdue, { key: `o${node.uuid}`, node }))}
      ${rows.failed.slice(0, cut).map((node) => h(Failed, { key: node.uuid, node, since: node.provision_updated_at }))}
      ${rows.held.slice(0, cut).map((node) => h(Held, { key: `h${node.uuid}`, node, state: node.provision_state }))}
      ${paused.map((one) => html`<li>${link(path("batches", one.uuid), batchTitle(one))}
        <span class="says">■ This batch is paused: ${bdi(one.paused_by)}.</span></li>`)}
      ${down.map((one) => h(Down, { key: one.hostname, conductor: one }))}
    </ul>`}
  </section>`;
}

/** @param {(node: Json) => boolean} accepts */
function nodesWhere(accepts) {
  return [...fleet.nodes.values()]
    .filter(accepts)
    .sort((a, b) => String(b.provision_updated_at).localeCompare(String(a.provision_updated_at)));
}

/** @param {string} rule @param {string} from @param {string} name @returns {Json[]} a list, read now and then */
function useRead(rule, from, name) {
  const [found, setFound] = useState(/** @type {Json[]} */ ([]));
  useEffect(() => {
    const read = async () => {
      if (!(await may(rule))) return;
      const { body } = await get(from);
      setFound(body[name]);
    };
    void read().catch(() => {});
    const timer = setInterval(() => !document.hidden && void read().catch(() => {}), READ_MS);
    return () => clearInterval(timer);
  }, []);
  return found;
}

/**
 * The node's `why`, read once for each state it comes to.
 * @param {Json} node
 */
function useWhy(node) {
  const [why, setWhy] = useState(/** @type {Json | null} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    get(path("nodes", node.uuid, "why"), abort.signal).then(({ body }) => setWhy(body), () => {});
    return () => abort.abort();
  }, [node.uuid, node.provision_state, node.provision_updated_at]);
  return why;
}

/**
 * A node that needs somebody: its state, why, since when, the act to use.
 * @param {Json} node @param {string | undefined} at @param {any} says @param {string} title
 * @param {any} label @param {() => void} act
 */
const row = (node, at, says, title, label, act) => html`<li>
  ${nodeLink(node)} ${h(State, { state: node.provision_state })}
  <span class="says" title=${title}>${says}</span> ${h(Ago, { at })}
  ${label && html`<button onClick=${act}>${label}…</button>`}
  <a class="button" href=${nodeAddress(node)}>Why</a>
</li>`;

/** @param {{node: Json, since: string}} props `since` tells a new failure of the same node */
function Failed({ node }) {
  const why = useWhy(node);
  const offered = (why?.verbs ?? []).filter((/** @type {Json} */ one) => !one.refused);
  const { target } = offered.find((/** @type {Json} */ one) => one.target === "retry") ?? offered[0] ?? {};
  const says = why ? told(why.says) : failureOf(node);
  return row(node, node.provision_updated_at, bdi(says), says, target && verb(target), () => openVerb(node, target));
}

/** @param {{node: Json}} props */
function Overdue({ node }) {
  const why = useWhy(node);
  const says = why ? told(why.says) : "";
  return row(node, node.provision_updated_at, html`<strong>◷ Overdue</strong> ${bdi(says)}`, says, why?.run && "Stop",
    () => openStop({ own: path("nodes", node.uuid), name: nameOf(node) }));
}

/** @param {{node: Json, state: string}} props `state` tells a change of the same node */
function Held({ node }) {
  const holds = fleet.holds.value.get(node.uuid) ?? [];
  const says = holds.map((one) => `${one.kind}: ${one.reason}`).join("; ");
  return row(node, holds[0]?.created_at, html`<strong class="held-mark">■ HELD</strong> ${bdi(says)}`, says, "Lift hold",
    () => openLift({ own: path("nodes", node.uuid), name: nameOf(node), holds }));
}

/** @param {{conductor: Json}} props */
function Down({ conductor }) {
  return html`<li>
    <a href=${href(path("conductors", conductor.hostname))}>${bdi(conductor.hostname)}</a>
    <span class="says">! This conductor gives no sign of life.</span>
    <a class="button" href="#/v1/doctor">Doctor</a>
  </li>`;
}
