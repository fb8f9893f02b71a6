/** What needs somebody: failed, overdue and held nodes, and conductors that are down. */
import { useEffect, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import * as fleet from "../state/nodes.js";
import { href, path } from "../state/route.js";
import { get } from "../wire/api.js";
import { State } from "./chip.js";
import { openVerb } from "./plan.js";
import { Ago, html, Text } from "./text.js";
import { verb } from "./words.js";

const EACH = 5;
const CONDUCTORS_MS = 30000;

/** @typedef {Record<string, any>} Json */

export function Attention() {
  const [all, setAll] = useState(false);
  const down = useConductors();
  void fleet.slowTick.value;
  const rows = {
    failed: nodesWhere((node) => fleet.kind(node) === "fail"),
    overdue: nodesWhere((node) => fleet.overdue.value.has(node.uuid)),
    held: nodesWhere((node) => fleet.holds.value.has(node.uuid)),
  };
  const counts = [
    rows.failed.length && `▲ ${rows.failed.length} failed`,
    rows.overdue.length && `◷ ${rows.overdue.length} overdue`,
    rows.held.length && `■ ${rows.held.length} held`,
    down.length && `! ${down.length} conductor${down.length > 1 ? "s" : ""} down`,
  ].filter(Boolean);
  if (!counts.length) return html`<p class="attention none">Nothing needs attention.</p>`;
  const cut = all ? rows.failed.length + rows.overdue.length : EACH;
  return html`<section class="attention" aria-labelledby="attention-title">
    <h2 id="attention-title">Needs attention</h2>
    <span class="counts">${counts.join("   ")}</span>
    ${rows.failed.length + rows.overdue.length > 2 * EACH &&
    html`<button class="quiet" onClick=${() => setAll(!all)}>${all ? "show fewer" : "show all"}</button>`}
    <ul>
      ${rows.overdue.slice(0, cut).map((node) => h(Overdue, { key: `o${node.uuid}`, node }))}
      ${rows.failed.slice(0, cut).map((node) => h(Failed, { key: node.uuid, node }))}
      ${down.map((one) => h(Down, { key: one.hostname, conductor: one }))}
    </ul>
  </section>`;
}

/** @param {(node: Json) => boolean} accepts */
function nodesWhere(accepts) {
  return [...fleet.nodes.values()]
    .filter(accepts)
    .sort((a, b) => String(b.provision_updated_at).localeCompare(String(a.provision_updated_at)));
}

/** @returns {Json[]} conductors that are not alive */
function useConductors() {
  const [down, setDown] = useState(/** @type {Json[]} */ ([]));
  useEffect(() => {
    const read = () =>
      get("/v1/conductors").then(
        ({ body }) => setDown(body.conductors.filter((/** @type {Json} */ one) => !one.alive)),
        () => {},
      );
    void read();
    const timer = setInterval(() => !document.hidden && void read(), CONDUCTORS_MS);
    return () => clearInterval(timer);
  }, []);
  return down;
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

/** @param {{node: Json}} props */
function Failed({ node }) {
  const why = useWhy(node);
  const offered = (why?.verbs ?? []).filter((/** @type {Json} */ one) => !one.refused);
  const first = offered.find((/** @type {Json} */ one) => one.target === "retry") ?? offered[0];
  const says = why?.says ?? fleet.failed.value.get(node.uuid)?.code ?? "";
  return html`<li>
    ${h(Name, { node })} ${h(State, { state: node.provision_state })}
    <span class="says" title=${says}>${h(Text, { of: says })}</span>
    ${h(Ago, { at: node.provision_updated_at })}
    ${first &&
    html`<button onClick=${() => openVerb(node, first.target)}>${verb(first.target)}…</button>`}
    <a class="button" href=${href(path("nodes", node.name ?? node.uuid))}>Why</a>
  </li>`;
}

/** @param {{node: Json}} props */
function Overdue({ node }) {
  const why = useWhy(node);
  return html`<li>
    ${h(Name, { node })} ${h(State, { state: node.provision_state })}
    <span class="says">◷ ${h(Text, { of: why?.says ?? "overdue" })}</span>
    ${h(Ago, { at: node.provision_updated_at })}
    <a class="button" href=${href(path("nodes", node.name ?? node.uuid))}>Why</a>
  </li>`;
}

/** @param {{node: Json}} props */
function Name({ node }) {
  return html`<a href=${href(path("nodes", node.name ?? node.uuid))}
    >${h(Text, { of: node.name ?? node.uuid })}</a
  >`;
}

/** @param {{conductor: Json}} props */
function Down({ conductor }) {
  return html`<li>
    <a href=${href(path("conductors", conductor.hostname))}>${h(Text, { of: conductor.hostname })}</a>
    <span class="says">! This conductor gives no sign of life.</span>
    <a class="button" href="#/v1/doctor">Doctor</a>
  </li>`;
}
