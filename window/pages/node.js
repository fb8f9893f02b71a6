/** One node: what it does, why it stands there, what can be done, and all that is known of it. */
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { ErasureList } from "./evidence.js";
import { Actions, Bmc } from "../parts/actions.js";
import { useSend } from "../parts/dialog.js";
import { Holds, openLift } from "../parts/holds.js";
import { Checks, COPY, copyOf, FaultBox, Listed, Shown, Skeleton, Tree, useDocument, wrong } from "../parts/read.js";
import { Log, Machine, Timeline } from "../parts/run.js";
import {
  advice, Ago, bdi, causeOf, copy, Curl, html, link, nodeAddress, Result, say, stamp, State, told, typed, verb,
} from "../parts/text.js";
import { duration, go, href, path, route } from "../state/route.js";
import { get, local, parsed } from "../wire/api.js";
import { Feed, followFrom } from "../wire/feed.js";

/** @typedef {Record<string, any>} Json */

/** Tabs by the last part of their path; `fields` and a log without a run have no path of their own. @type {Record<string, string>} */
const TABS = {
  runs: "Runs", log: "Log", states: "BMC", ports: "Ports", inventory: "Inventory", fields: "Fields",
  history: "History", holds: "Holds", erasures: "Erasures",
};
const RUN_MS = 2000;

export function NodePage() {
  const { parts } = route.value;
  const name = parts[1] ?? "";
  const own = path("nodes", name);
  const [turn, setTurn] = useState(0);
  // A lessee may see the node, but not why it is in its state: that is asked once.
  const [forbidden, setForbidden] = useState("");
  const [deleted, setDeleted] = useState("");
  const gone = deleted === own;
  const why = useDocument(gone || forbidden === own ? null : `${own}/why`, { again: turn });
  const known = useRef("");
  known.current = why.body?.node ?? known.current;
  useEffect(() => {
    if (why.fault?.status === 403) setForbidden(own);
    // The node may have another name now, or it is deleted, and its events are no longer followed.
    if (why.fault?.status === 404 && known.current) {
      get(path("nodes", known.current)).then(({ body }) =>
        route.value.parts[1] === name && go(nodeAddress(body), { replace: true }),
      (fault) => { if (fault.status === 404) setDeleted(own); });
    }
  }, [why.fault]);
  const node = useDocument(gone ? null : own, { again: turn });
  const reload = () => setTurn((last) => last + 1);
  useEvents(name, why.body?.node ?? node.body?.uuid, reload, () => setDeleted(own));
  const run = useDocument(runPath(own, why.body, parts), {
    again: turn, each: why.body && busy(why.body) ? RUN_MS : 0,
  });
  if (gone) return html`<p role="status">This node has been deleted.</p>`;
  if (forbidden === own && node.body) return h(Leased, { node: node.body, own });
  const fault = wrong(why.fault, `${own}/why`);
  if (!why.body) return fault ?? h(Skeleton, { rows: 8 });
  const tab = tabOf(parts, route.value.view.tab);
  return html`${fault} ${h(NodeHead, { why: why.body, node: node.body, own, reload })}
    ${h(Actions, { why: why.body, node: node.body, reload })}
    ${why.body.provision_state === "enroll" && h(Before, { own })}
    ${tab !== "log" && h(Machine, { why: why.body })}
    ${run.body && tab === "runs" && h(Timeline, { run: run.body, why: why.body })}
    ${why.body.failure && tab === "runs" && h(Failure, { failure: why.body.failure })}
    ${h(Tabs, { own, tab, run: run.body })}
    <section aria-label=${TABS[tab] ?? tab}>${panel(tab, { own, node, why: why.body, run, reload, turn })}</section>`;
}

/** @param {string[]} parts of the path @param {string | undefined} asked by the view */
function tabOf(parts, asked) {
  if (parts[4] === "log") return "log";
  return asked || (parts[2] && parts[2] !== "why" ? parts[2] : "runs");
}

/** @param {Json} why */
const busy = (why) => ["busy", "wait"].includes(why.kind);

/** @param {string} own @param {Json | null} why @param {string[]} parts */
function runPath(own, why, parts) {
  if (parts[2] === "runs" && parts[3]) return `${own}/runs/${encodeURIComponent(parts[3])}`;
  return why?.run ? `${own}/runs/${why.run.uuid}` : null;
}

/**
 * Call back, at most once a second, when an event of this node comes.
 * @param {string} name @param {string | undefined} uuid @param {() => void} onEvent
 * @param {() => void} onDeleted the node is gone: nothing of it can be read any more
 */
function useEvents(name, uuid, onEvent, onDeleted) {
  const call = useRef({ onEvent, onDeleted });
  call.current = { onEvent, onDeleted };
  useEffect(() => {
    if (!uuid) return undefined;
    let timer = 0;
    const soon = () => {
      timer ||= setTimeout(() => {
        timer = 0;
        call.current.onEvent();
      }, 300);
    };
    const take = (/** @type {Json[]} */ events) => {
      if (!events.some((event) => event.kind === "node_deleted")) return soon();
      clearTimeout(timer);
      stop();
      return call.current.onDeleted();
    };
    const stop = followFrom("/v1/events?since=now", (body) => {
      soon(); // The documents were read before the cursor: what happened between is read now.
      return new Feed(body.cursor, take, soon, { node: uuid });
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [name, uuid]);
}

/** What a lessee sees of a node. @param {{node: Json, own: string}} props */
function Leased({ node, own }) {
  return html`<header class="node-head">
      <h1>${bdi(node.name ?? node.uuid)}</h1>
      ${h(State, { state: node.provision_state })}
      <span class="small">${h(Ago, { at: node.provision_updated_at })}</span>
      ${node.power_state && html`<span class="tag">${bdi(node.power_state)}</span>`} ${h(Curl, { path: own })}
    </header>
    <p class="says">You may see this node, but not why it is in its state, and not its runs.</p>
    ${h(Tree, { of: withoutLinks(node) })}`;
}

/** @param {{why: Json, node: Json | null, own: string, reload: () => void}} props */
function NodeHead({ why, node, own, reload }) {
  const name = why.name ?? why.node;
  const facts = [
    why.maintenance && `maintenance${why.maintenance.fault ? `: ${why.maintenance.fault}` : ""}`,
    why.data_state && `data: ${why.data_state}`,
    node?.power_state,
    node?.retired && "retired",
    node?.protected && "protected",
    why.lock && `locked by ${why.lock.host}${why.lock.for ? ` for ${why.lock.for}` : ""}`,
  ].filter(Boolean);
  return html`<header class="node-head">
      <h1>${bdi(name)}</h1>
      ${h(State, { state: why.provision_state })} <span class="small">${h(Ago, { at: why.since })}</span>
      ${why.holds.map((/** @type {Json} */ one) => html`<button
        class="tag held-mark" title="Lift this hold…" onClick=${() => openLift({ own, name, reload, holds: [one] })}
        >■ HELD (${one.kind}): ${bdi(one.reason)}</button>`)}
      ${facts.map((fact) => html`<span class="tag">${bdi(fact)}</span>`)}
      ${h(Curl, { path: `${own}/why` })}
      <button class="quiet" onClick=${() => copy(location.href)}>copy link</button>
      <a href=${href("/v1/doctor", { node: why.name ?? why.node })}>doctor</a>
    </header>
    <p class="says">${bdi(told(why.says))} ${advice(why)} ${why.batch && link(path("batches", why.batch.uuid), why.batch.name ?? "batch")}</p>`;
}

/** What doctor says of a node before it is managed. @param {{own: string}} props */
function Before({ own }) {
  const checks = useDocument(`/v1/doctor?node=${own.split("/").pop()}`).body?.checks ?? [];
  const here = checks.filter((/** @type {Json} */ one) => one.where?.startsWith("node "));
  return here.length > 0 && html`<section aria-label="Checks before Manage">${h(Checks, { checks: here })}</section>`;
}

/** @param {{failure: Json}} props */
function Failure({ failure }) {
  const log = failure.evidence?.find((/** @type {Json} */ one) => one.kind === "log");
  return html`<section class="evidence" aria-label="Failure">
    ${failure.evidence
      ?.filter((/** @type {Json} */ one) => one.text)
      .map((/** @type {Json} */ one) => html`<p>${one.kind}: ${bdi(one.text)}</p>`)}
    ${log?.tail?.length > 0 &&
    html`<pre>${log.tail.map((/** @type {string} */ line) => html`${bdi(line)}${"\n"}`)}</pre>`}
    ${log && html`<a href=${`#${local(log.href)}`}>the whole log</a>`}
  </section>`;
}

/** @param {{own: string, tab: string, run: Json | null}} props */
function Tabs({ own, tab, run }) {
  /** @param {string} name */
  const address = (name) => {
    if (name === "log" && run) return href(`${own}/runs/${run.uuid}/log`);
    return ["fields", "log"].includes(name) ? href(own, {}, { tab: name }) : href(`${own}/${name}`);
  };
  return html`<select class="parts" aria-label="Part of the node" onChange=${typed((to) => go(to))}>
      ${Object.entries(TABS).map(
        ([name, label]) => html`<option value=${address(name)} selected=${tab === name}>${label}</option>`,
      )}
    </select>
    <nav class="tabs" aria-label="Parts of the node">
    ${Object.entries(TABS).map(
      ([name, label], at) =>
        html`<a
          href=${address(name)}
          aria-current=${tab === name ? "page" : undefined}
          data-key=${at + 1}
          >${label}</a
        >`,
    )}
  </nav>`;
}

/** @param {string} tab @param {any} props */
function panel(tab, props) {
  const { own, run, why } = props;
  if (tab === "log") {
    if (!run.body) return html`<p>This node has no run.</p>`;
    return h(Log, { path: `${own}/runs/${run.body.uuid}`, live: !run.body.ended_at });
  }
  const page = {
    runs: Runs, states: Bmc, ports: Ports, inventory: Inventory, fields: Fields, history: History,
    holds: Holds, erasures: Erasures,
  }[/** @type {"runs"} */ (tab)];
  return page ? h(page, { ...props, uuid: why.node }) : html`<p>There is no page for this path.</p>`;
}

// -- The tabs of a node below its run.

/** @param {Json} run */
export const runRow = (run) => [
  link(path("nodes", run.node_uuid, "runs", run.uuid), verb(run.verb) + (run.retry_of ? ", retry" : "")),
  h(Result, { result: run.state }),
  stamp(run.started_at),
  run.duration_seconds == null ? h(Ago, { at: run.started_at }) : duration(run.duration_seconds),
  run.requester,
  causeOf(run),
  copyOf("nodes", run.node_uuid, "runs", run.uuid),
];
export const RUN_HEAD = ["Verb", "Result", "Begun", "Took", "By", "Error", COPY];

/** @param {any} props */
export function Runs({ own, turn }) {
  return h(Listed, {
    path: `${own}/runs?limit=50`, again: turn, label: "Runs", head: RUN_HEAD, of: "runs", row: runRow,
  });
}

/** @param {any} props */
function Ports({ own }) {
  return h(Listed, {
    path: `${own}/ports?detail=true`, label: "Ports", of: "ports",
    head: ["Address", "Name", "PXE", "Physical network", "Switch"],
    row: (one) => [
      html`<code>${bdi(one.address)}</code>`, one.name,
      one.pxe_enabled ? "yes" : "no", one.physical_network,
      one.local_link_connection?.switch_id,
    ],
  });
}

/** @param {any} props */
function Inventory({ own }) {
  return h(Shown, { path: `${own}/inventory`, absent: "Not inspected yet.", draw: (body) => h(Tree, { of: body }) });
}

/** @param {any} props */
function Fields({ node, own, reload }) {
  const [text, setText] = useState("");
  const read = parsed(text);
  const patch = Array.isArray(read) ? read : null;
  const sent = { method: "PATCH", path: own, body: patch, of: own, seen: node };
  const { fault, busy, send, request, choice } = useSend(sent, () => {
    setText("");
    say("The node is changed.");
    reload();
  });
  if (!node.body) return h(Skeleton, {});
  return html`<details>
      <summary>Change fields</summary>
      <label class="block"
        >JSON Patch (RFC 6902)
        <textarea
          rows="3"
          spellcheck="false"
          placeholder='[{"op": "replace", "path": "/resource_class", "value": "gpu"}]'
          value=${text}
          onInput=${typed(setText)}
        />
      </label>
      <ul>${patch?.map((/** @type {Json} */ one) => html`<li><code>${bdi(one?.path)}</code>: ${bdi(valueAt(node.body, one?.path))} → ${one?.op === "remove" ? "removed" : bdi(one?.value)}</li>`)}</ul>
      ${fault && h(FaultBox, { fault })} ${choice}
      ${patch && h(Curl, /** @type {any} */ (request))}
      <button disabled=${!patch || busy} onClick=${() => send()}>Send the patch</button>
    </details>
    <p class="tools">${h(Curl, { path: own })}</p>
    ${h(Tree, { of: withoutLinks(node.body) })}`;
}

/** @param {Json} node @param {unknown} pointer RFC 6901 @returns {unknown} what stands there now */
const valueAt = (node, pointer) =>
  String(pointer ?? "").split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((/** @type {any} */ at, part) => at?.[part], node) ?? "nothing";

/** @param {Json} node */
const withoutLinks = (node) =>
  Object.fromEntries(Object.entries(node).filter(([, value]) => !linked(value)));

/** @param {any} value */
const linked = (value) => Array.isArray(value) && value[0]?.href !== undefined;

/** @param {any} props */
function History({ own, turn }) {
  return h(Listed, {
    path: `${own}/history?limit=100&sort_dir=desc`, again: turn, label: "History", of: "history",
    head: ["At", "Severity", "Event"],
    row: (one) => [stamp(one.created_at), one.severity, one.event],
  });
}

/** @param {any} props */
function Erasures({ own }) {
  return h(Shown, { path: `${own}/erasures`, draw: (body) => h(ErasureList, { body }) });
}
