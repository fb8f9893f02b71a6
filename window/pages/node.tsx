/** One node: what it does, why it stands there, what can be done, and all that is known of it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Actions } from "../parts/actions";
import { Bmc, Console } from "../parts/bmc";
import { typed } from "../parts/fields";
import { Holds } from "../parts/holds";
import { Log } from "../parts/log";
import { openLift } from "../parts/openers";
import { Checks, Skeleton, Tree, useDocument, wrong } from "../parts/read";
import { Machine, Timeline } from "../parts/run";
import { Erasures, Fields, History, Inventory, Ports, Runs, withoutLinks } from "../parts/tabs";
import { advice, Ago, bdi, link, nodeAddress, stamp, State } from "../parts/text";
import { copy, Curl, useShown } from "../parts/toasts";
import { optionsIn, wording } from "../parts/words";
import { go, href, path, route } from "../state/route";
import { get, local } from "../wire/api";
import { type Answers } from "../wire/documents";
import { Feed, followFrom } from "../wire/feed";
import { type Json } from "../wire/json";

/** Tabs by the last part of their path; `fields` and a log without a run have no path of their own. */
const TABS: Record<string, string> = {
  runs: "Runs",
  log: "Log",
  states: "BMC",
  ports: "Ports",
  inventory: "Inventory",
  fields: "Fields",
  history: "History",
  holds: "Holds",
  erasures: "Erasures",
  console: "Console",
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
  useShown(why.body ? path("nodes", why.body.node) : "");
  useEffect(() => {
    if (why.fault?.status === 403) setForbidden(own);
    // The node may have another name now, or it is deleted, and its events are no longer followed.
    if (why.fault?.status === 404 && known.current) {
      get(path("nodes", known.current)).then(
        ({ body }) => route.value.parts[1] === name && go(nodeAddress(body), { replace: true }),
        (fault) => {
          if (fault.status === 404) setDeleted(own);
        },
      );
    }
  }, [why.fault]);
  const node = useDocument(gone ? null : own, { again: turn });
  const reload = () => setTurn((last) => last + 1);
  useEvents(name, why.body?.node ?? node.body?.uuid, reload, () => setDeleted(own));
  const run = useDocument(runPath(own, why.body, parts), {
    again: turn,
    each: why.body && busy(why.body) ? RUN_MS : 0,
  });
  if (gone) return <p role="status">This node has been deleted.</p>;
  if (forbidden === own && node.body) return <Leased node={node.body} own={own} />;
  const fault = wrong(why.fault, `${own}/why`, why.at);
  if (!why.body) return fault ?? <Skeleton rows={8} />;
  const tab = tabOf(parts, route.value.view.tab);
  return (
    <>
      {fault} <NodeHead why={why.body} node={node.body} own={own} reload={reload} />
      <Actions why={why.body} node={node.body} reload={reload} />
      {why.body.provision_state === "enroll" && <Before own={own} changed={node.body?.updated_at ?? ""} />}
      {tab !== "log" && <Machine why={why.body} />}
      {run.body && tab === "runs" && <Timeline run={run.body} why={why.body} />}
      {why.body.failure && tab === "runs" && <Failure failure={why.body.failure} />}
      <Tabs own={own} tab={tab} run={run.body} />
      <section aria-label={TABS[tab] ?? tab}>
        {panel(tab, { own, node, why: why.body, run, reload, turn })}
      </section>
    </>
  );
}

/**
 * @param parts of the path
 * @param named by the view
 */
function tabOf(parts: string[], named: string | undefined) {
  if (parts[4] === "log") return "log";
  if (parts[3] === "console") return "console";
  return named || (parts[2] && parts[2] !== "why" ? parts[2] : "runs");
}

const busy = (why: Json) => ["busy", "wait"].includes(why.kind);

function runPath(own: string, why: Json | null, parts: string[]) {
  if (parts[2] === "runs" && parts[3]) return `${own}/runs/${encodeURIComponent(parts[3])}`;
  return why?.run ? `${own}/runs/${why.run.uuid}` : null;
}

/**
 * Call back, at most once a second, when an event of this node comes.
 * @param onDeleted the node is gone: nothing of it can be read any more
 */
function useEvents(name: string, uuid: string | undefined, onEvent: () => void, onDeleted: () => void) {
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
    const take = (events: Json[]) => {
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

/** What a lessee sees of a node. */
function Leased({ node, own }: { node: Json; own: string }) {
  return (
    <>
      <header class="node-head">
        <h1>{bdi(node.name ?? node.uuid)}</h1>
        <State state={node.provision_state} />
        <span class="small">
          <Ago at={node.provision_updated_at} />
        </span>
        {node.power_state && <span class="tag">{bdi(node.power_state)}</span>} <Curl path={own} />
      </header>
      <p class="says">You may see this node, but not why it is in its state, and not its runs.</p>
      <Tree of={withoutLinks(node)} />
    </>
  );
}

function NodeHead({
  why,
  node,
  own,
  reload,
}: {
  why: Json;
  node: Json | null;
  own: string;
  reload: () => void;
}) {
  const name = why.name ?? why.node;
  const facts = [
    why.maintenance && `maintenance${why.maintenance.fault ? `: ${why.maintenance.fault}` : ""}`,
    why.data_state && `data: ${why.data_state}`,
    node?.power_state,
    node?.retired && "retired",
    node?.protected && "protected",
    why.lock && `locked by ${why.lock.host}${why.lock.for ? ` for ${why.lock.for}` : ""}`,
  ].filter(Boolean);
  return (
    <>
      <header class="node-head">
        <h1>{bdi(name)}</h1>
        <State state={why.provision_state} />{" "}
        <span class="small">
          {/* One clock with the run: its state may change on the way. */}
          <Ago at={busy(why) ? (why.run?.started_at ?? why.since) : why.since} />
        </span>
        {why.holds.map((hold: Json) => (
          <button
            class="tag held-mark"
            title="Lift this hold…"
            onClick={() => openLift({ own, name, reload, holds: [hold] })}
          >
            ■ HELD ({hold.kind}): {bdi(hold.reason)}
          </button>
        ))}
        {facts.map((fact) => (
          <span class="tag">{bdi(fact)}</span>
        ))}
        <Curl path={`${own}/why`} />
        <button class="quiet" onClick={() => copy(location.href)}>
          copy link
        </button>
        <a href={href("/v1/doctor", { node: why.name ?? why.node })}>doctor</a>
      </header>
      <p class="says">
        <span title={optionsIn(why.says)}>{bdi(wording(why.says))}</span> {advice(why)}{" "}
        {why.batch && link(path("batches", why.batch.uuid), why.batch.name ?? "batch")}
      </p>
    </>
  );
}

/** What doctor says of a node before it is managed: asked again when the node has changed. */
function Before({ own, changed }: { own: string; changed: string }) {
  const [last, setLast] = useState("");
  return <CheckedNode key={`${changed} ${last}`} own={own} last={last} again={setLast} />;
}

/** @param props `last`: the time of findings that are not wanted again; the service keeps them for a moment */
function CheckedNode({ own, last, again }: { own: string; last: string; again: (last: string) => void }) {
  const [stale, setStale] = useState(false);
  const { body, fault } = useDocument(`/v1/doctor?node=${own.split("/").pop()}`, {
    each: stale ? RUN_MS : 0,
  });
  useEffect(() => setStale(!!last && body?.at === last), [body]);
  const doctor: Answers["/v1/doctor"] | null = body?.at === last ? null : body;
  const here = doctor?.checks.filter(({ where }) => where.startsWith("node ")) ?? [];
  if (fault || (doctor && !here.length)) return null;
  return (
    <section aria-label="Checks before Manage">
      {!doctor && <Skeleton rows={3} />}
      <Checks checks={here} />
      {doctor && (
        <p class="small">
          Checked {stamp(doctor.at)}.{" "}
          <button class="quiet" onClick={() => again(doctor.at)}>
            Check again
          </button>
        </p>
      )}
    </section>
  );
}

function Failure({ failure }: { failure: Json }) {
  const log = failure.evidence?.find((item: Json) => item.kind === "log");
  return (
    <section class="evidence" aria-label="Failure">
      {failure.evidence
        ?.filter((item: Json) => item.text)
        .map((item: Json) => (
          <p>
            {item.kind}: {bdi(item.text)}
          </p>
        ))}
      {log?.tail?.length > 0 && (
        <pre>
          {log.tail.map((line: string) => (
            <>
              {bdi(line)}
              {"\n"}
            </>
          ))}
        </pre>
      )}
      {log && <a href={`#${local(log.href)}`}>the whole log</a>}
    </section>
  );
}

function Tabs({ own, tab, run }: { own: string; tab: string; run: Json | null }) {
  const address = (name: string) => {
    if (name === "log" && run) return href(`${own}/runs/${run.uuid}/log`);
    if (name === "console") return href(`${own}/states/console`);
    return ["fields", "log"].includes(name) ? href(own, {}, { tab: name }) : href(`${own}/${name}`);
  };
  return (
    <>
      <select class="parts" aria-label="Part of the node" onChange={typed((to) => go(to))}>
        {Object.entries(TABS).map(([name, label]) => (
          <option value={address(name)} selected={tab === name}>
            {label}
          </option>
        ))}
      </select>
      <nav class="tabs" aria-label="Parts of the node">
        {Object.entries(TABS).map(([name, label], at) => (
          <a href={address(name)} aria-current={tab === name ? "page" : undefined} data-key={at + 1}>
            {label}
          </a>
        ))}
      </nav>
    </>
  );
}

function panel(tab: string, props: any) {
  const { own, run, why } = props;
  if (tab === "log") {
    if (!run.body) return <p>This node has no run.</p>;
    return <Log path={`${own}/runs/${run.body.uuid}`} live={!run.body.ended_at} />;
  }
  const Panel = {
    runs: Runs,
    states: Bmc,
    ports: Ports,
    inventory: Inventory,
    fields: Fields,
    history: History,
    holds: Holds,
    erasures: Erasures,
    console: Console,
  }[tab as "runs"];
  return Panel ? <Panel {...props} uuid={why.node} /> : <p>There is no page for this path.</p>;
}
