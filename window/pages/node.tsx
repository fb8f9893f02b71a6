/** One node: who it is, what it does, the act that comes next, and all that is known of it in five tabs. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Actions } from "../parts/actions";
import { typed } from "../parts/fields";
import { Head, Says } from "../parts/identity";
import { lazy } from "../parts/lazy";
import { Checks, DocumentView, JsonOf, Skeleton, useDocument, withoutLinks, wrong } from "../parts/read";
import { Machine, Timeline } from "../parts/run";
import { Ago, bdi, nodeAddress, stamp, State, Tree } from "../parts/text";
import { MenuCurl, useShown } from "../parts/toasts";
import { tabOf, TABS, type Tab } from "../state/node-tabs";
import { go, href, path, route } from "../state/route";
import { get } from "../wire/api";
import { type Answers } from "../wire/documents";
import { Feed, followFrom } from "../wire/feed";
import { type Json } from "../wire/json";

// Each tab is a part of its own, so the page itself stays small.
const Activity = lazy(async () => (await import("../parts/activity")).Activity);
const Console = lazy(async () => (await import("../parts/bmc")).Console);
const ErasureList = lazy(async () => (await import("./evidence")).ErasureList);
const Hardware = lazy(async () => (await import("../parts/hardware")).Hardware);
const Holds = lazy(async () => (await import("../parts/holds")).Holds);
const Log = lazy(async () => (await import("../parts/log")).Log);
const NodeSettings = lazy(async () => (await import("../parts/tabs")).NodeSettings);

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
  // A machine that was never inspected has no inventory.
  const inspected = node.body?.inspection_finished_at;
  const inventory = useDocument(inspected && !gone ? `${own}/inventory` : null, { again: inspected });
  if (gone) return <p role="status">This node has been deleted.</p>;
  if (forbidden === own && node.body) return <Leased node={node.body} own={own} />;
  const fault = wrong(why.fault, `${own}/why`, why.at);
  if (!why.body) return fault ?? <Skeleton rows={8} />;
  const tab = tabOf(parts, route.value.view.tab);
  const shown: Shown = { own, parts, node, why: why.body, run, inventory, reload, turn };
  return (
    <>
      {fault}
      {copies(tab, shown).map((from) => (
        <MenuCurl key={from} path={from} />
      ))}
      <Head why={why.body} node={node.body} inventory={inventory.body} own={own} reload={reload}>
        <Actions why={why.body} node={node.body} reload={reload} log={logOf(own, run.body)} />
      </Head>
      <Says why={why.body} /> <Tabs own={own} tab={tab} />
      <section aria-label={tab ? TABS[tab] : "Nothing"}>{panel(tab, shown)}</section>
    </>
  );
}

/** What the parts of the page are drawn from. */
type Shown = {
  own: string;
  parts: string[];
  node: ReturnType<typeof useDocument>;
  why: Json;
  run: ReturnType<typeof useDocument>;
  inventory: ReturnType<typeof useDocument>;
  reload: () => void;
  turn: number;
};

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
        {node.power_state && <span class="tag">{bdi(node.power_state)}</span>}
      </header>
      <p class="says">You may see this node, but not why it is in its state, and not its runs.</p>
      <Tree of={withoutLinks(node)} />
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
  const evidence: Json[] = failure.evidence ?? [];
  const texts = evidence.filter((item) => item.text);
  const tail: string[] = evidence.find((item) => item.kind === "log")?.tail ?? [];
  if (!texts.length && !tail.length) return null;
  return (
    <section class="evidence" aria-label="Failure">
      {texts.map((item) => (
        <p>
          {item.kind}: {bdi(item.text)}
        </p>
      ))}
      {tail.length > 0 && (
        <pre>
          {tail.map((line) => (
            <>
              {bdi(line)}
              {"\n"}
            </>
          ))}
        </pre>
      )}
    </section>
  );
}

function Tabs({ own, tab }: { own: string; tab: Tab | null }) {
  const address: Record<Tab, string> = {
    overview: href(own),
    activity: href(`${own}/runs`),
    hardware: href(`${own}/inventory`),
    settings: href(own, {}, { tab: "settings" }),
    console: href(`${own}/states/console`),
  };
  const all = Object.entries(TABS) as [Tab, string][];
  return (
    <>
      <select class="parts" aria-label="Part of the node" onChange={typed((to) => go(to))}>
        {all.map(([name, label]) => (
          <option value={address[name]} selected={tab === name}>
            {label}
          </option>
        ))}
      </select>
      <nav class="tabs" aria-label="Parts of the node">
        {all.map(([name, label], at) => (
          <a href={address[name]} aria-current={tab === name ? "page" : undefined} data-key={at + 1}>
            {label}
          </a>
        ))}
      </nav>
    </>
  );
}

/** @returns the address of the log of a run */
const logOf = (own: string, run: Json | null) =>
  run ? href(`${own}/runs/${run.uuid}/log`) : href(own, {}, { tab: "log" });

function panel(tab: Tab | null, shown: Shown) {
  const { own, node, why, inventory, reload, turn } = shown;
  if (tab === "overview") return <Overview {...shown} />;
  if (tab === "activity") return <ActivityTab {...shown} />;
  if (tab === "hardware") return <Hardware own={own} node={node.body} inventory={inventory} turn={turn} />;
  if (tab === "settings")
    return <NodeSettings own={own} node={node} uuid={why.node} reload={reload} turn={turn} />;
  if (tab === "console") return <Console own={own} why={why} turn={turn} reload={reload} />;
  return <p>There is no page for this path.</p>;
}

/** @returns the paths of the documents of a tab */
function copies(tab: Tab | null, { own, run }: Shown): string[] {
  const parts: Record<Tab, string[]> = {
    overview: run.body ? [`runs/${run.body.uuid}`] : [],
    activity: ["runs?limit=50", "history?limit=100&sort_dir=desc", "holds?ended=true", "erasures"],
    hardware: ["inventory", "ports?detail=true", "bios", "firmware"],
    settings: ["ports?detail=true"],
    console: ["states", "states/console"],
  };
  return [`${own}/why`, own, ...(tab ? parts[tab] : []).map((part) => `${own}/${part}`)];
}

/** What the node does, and why it stands where it is. */
function Overview({ own, why, node, run }: Shown) {
  return (
    <>
      {why.provision_state === "enroll" && <Before own={own} changed={node.body?.updated_at ?? ""} />}
      {run.body && (
        <>
          <Timeline run={run.body} why={why} /> <a href={logOf(own, run.body)}>Log</a>
        </>
      )}
      {why.failure && <Failure failure={why.failure} />}
      <Machine why={why} />
      <JsonOf body={why} />
    </>
  );
}

/** Lists of what has happened, each with its address. */
const LISTS: [string, string][] = [
  ["runs", "All"],
  ["log", "Log"],
  ["holds", "Holds"],
  ["erasures", "Erasures"],
];

function ActivityTab({ own, parts, node, why, run, reload, turn }: Shown) {
  const list = listOf(parts, route.value.view.tab);
  const address = (name: string) => (name === "log" ? logOf(own, run.body) : href(`${own}/${name}`));
  return (
    <>
      <nav class="filters" aria-label="Lists of the activity">
        {LISTS.map(([name, label]) => (
          <a class="button" href={address(name)} aria-current={name === list ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      {list === "log" &&
        (run.body ? (
          <Log path={`${own}/runs/${run.body.uuid}`} live={!run.body.ended_at} />
        ) : (
          <p>This node has no run.</p>
        ))}
      {list === "holds" && <Holds own={own} why={why} reload={reload} turn={turn} />}
      {list === "erasures" && (
        <DocumentView
          bare
          again={turn}
          path={`${own}/erasures`}
          draw={(body) => <ErasureList body={body} />}
        />
      )}
      {list === "runs" && (
        <>
          {parts[3] && run.body && <Timeline run={run.body} />}
          {node.body && <Activity node={node.body} />}
          <JsonOf path={`${own}/history?limit=100&sort_dir=desc`} />
        </>
      )}
    </>
  );
}

/** @returns the list of the tab Activity that an address names */
function listOf(parts: string[], named: string | undefined) {
  if (parts[4] === "log" || named === "log") return "log";
  return parts[2] === "holds" || parts[2] === "erasures" ? parts[2] : "runs";
}
