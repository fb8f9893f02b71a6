/** The nodes of a batch: their squares, their causes of failure, and their table. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ENDED } from "../state/batches";
import { duration, now } from "../state/clock";
import { causes, markOf, secondsOf, slowest, usualOf, waves } from "../state/members";
import { changeRoute, href, path, route } from "../state/route";
import { type Fault, pages, passing, readNodes, sleep } from "../wire/api";
import { POLL_MS } from "../wire/feed";
import { type Json } from "../wire/json";
import { openNext, openSome } from "./bulk";
import { DocumentView, List, useDocument, wrong } from "./read";
import { useReading } from "./reading";
import { Sign, Squares } from "./squares";
import { bdi, link, Marks, Result, stamp } from "./text";
import { erases, nameOf, wording } from "./words";

/** What is read of each node for its square. */
const FIELDS_OF_MEMBER = "uuid,name,wave,result,error,run,started_at,ended_at";
const PAGE_MS = 1000;

/**
 * All nodes of a batch, read again when its counts have changed; of many nodes not as often. A reading
 * under way ends first, or a large batch would never be read.
 */
function useMembers(own: string, counts: string): { members: Json[]; fault: Fault | null } {
  const [found, setFound] = useState({ members: [] as Json[], fault: null as Fault | null });
  const reading = useRef({ under: false, again: false, abort: new AbortController() });
  useEffect(() => () => reading.current.abort.abort(), []);
  useEffect(() => {
    const state = reading.current;
    const { signal } = state.abort;
    state.again = true;
    const read = async () => {
      const members: Json[] = [];
      let many = 0;
      state.again = false;
      const list = `${own}/nodes?limit=1000&fields=${FIELDS_OF_MEMBER}`;
      for await (const page of pages(list, "nodes", signal)) {
        members.push(...page);
        many += 1;
      }
      setFound({ members, fault: null });
      if (many > 1) await sleep(many * PAGE_MS);
    };
    const readAll = async () => {
      while (state.again && !signal.aborted) {
        await read().catch(async (fault: Fault) => {
          if (signal.aborted) return;
          setFound((old) => ({ ...old, fault }));
          state.again ||= passing(fault);
          await sleep(POLL_MS);
        });
      }
      state.under = false;
    };
    if (!state.under) void readAll();
    state.under = true;
  }, [counts]);
  return found;
}

/** The nodes of a batch: as squares, by cause, and in a table that the squares filter. */
export function Members({ own, batch }: { own: string; batch: Json }) {
  const { members, fault } = useMembers(own, JSON.stringify(batch.counts));
  const { query, view } = route.value;
  const groups = useMemo(() => waves(batch.waves, members), [members]);
  const result = query.get("result") ?? "";
  const chosen = members.find(({ uuid }) => uuid === view.node);
  const erasing = erases(batch.request?.target);
  const times = useMemo(() => new Map(members.map((member) => [member.uuid, member])), [members]);
  const pick = (uuid: string) => changeRoute({ "~node": uuid === view.node ? "" : uuid }, { replace: true });
  return (
    <>
      {wrong(fault, own)}
      {members.length > 0 && (
        <Squares
          groups={groups}
          label="Nodes by wave"
          selected={new Set(chosen ? [chosen.uuid] : [])}
          onPress={pick}
          about={(uuid) => tookOf(times.get(uuid))}
        />
      )}
      <Causes batch={batch} members={members} />
      <div class="filters" role="group" aria-label="Results">
        {["", ...Object.keys(batch.counts).filter((name) => batch.counts[name] || name === result)].map(
          (name) => (
            <a
              class="button"
              aria-current={name === result && !chosen ? "true" : undefined}
              href={href(own, name ? { result: name } : {})}
            >
              {name && <Sign mark={markOf(name)} />} {name || "all"} {name ? batch.counts[name] : ""}
            </a>
          ),
        )}
        {chosen && (
          <button class="pressed" onClick={() => pick(chosen.uuid)}>
            {bdi(nameOf(chosen))} <span aria-label="remove">×</span>
          </button>
        )}
      </div>
      {chosen ? (
        <NodeList nodes={[chosen]} erasing={erasing} />
      ) : (
        <DocumentView
          path={`${own}/nodes?limit=500${result ? `&result=${encodeURIComponent(result)}` : ""}`}
          again={JSON.stringify(batch.counts)}
          draw={(body) => <NodeList nodes={body.nodes} erasing={erasing} />}
        />
      )}
    </>
  );
}

/** @returns how long a node of a batch took, or takes */
function tookOf(member: Json | undefined): string {
  if (!member?.started_at) return "";
  return duration(secondsOf(member, now.value) ?? 0);
}

/** Failures by cause, the slowest node, and what can be done with them. */
function Causes({ batch, members }: { batch: Json; members: Json[] }) {
  const found = useMemo(() => causes(members), [members]);
  const late = slowest(members, now.value);
  const failed = members.filter((member) => member.result === "failed");
  const managed = ENDED.includes(batch.state) && batch.request?.target === "manage" && batch.counts.done > 0;
  return (
    <>
      {found.length > 0 && (
        <ul class="causes" aria-label="Failures by cause">
          {found.map(({ text, members: some }) => {
            const again = some.filter((member) => member.run);
            return (
              <li>
                <b class="danger">▲ {some.length}</b> {bdi(wording(text, some[0]))}
                {again.length > 0 && (
                  <button onClick={() => openSome(again, "retry")}>{`Retry ${again.length}…`}</button>
                )}
              </li>
            );
          })}
        </ul>
      )}
      {late && <Slowest {...late} />}
      {(failed.length > 0 || managed) && (
        <div class="actions">
          {batch.counts.failed > 0 && (
            <button onClick={() => openNext(batch, "failed", failed, "retry")}>Retry the failed…</button>
          )}
          {managed && (
            <button onClick={() => openNext(batch, "done", doneOf(members), "clean")}>
              Clean the managed…
            </button>
          )}
        </div>
      )}
    </>
  );
}

const doneOf = (members: Json[]) => members.filter(({ result }) => result === "done");

/** The node that took longest, beside what its steps usually take. */
function Slowest({ member, seconds }: { member: Json; seconds: number }) {
  const { body } = useDocument(member.run ? path("nodes", member.uuid, "runs", member.run) : null);
  const usual = body && usualOf(body.steps);
  return (
    <p>
      slowest: {memberLink(member)} {duration(seconds)}
      {usual && ` (usual ${duration(usual)})`}
    </p>
  );
}

/** Nodes of a batch, with what their documents say of them. */
function NodeList({ nodes, erasing }: { nodes: Json[]; erasing: boolean }) {
  const marked = useMarked(nodes.map(({ uuid }) => uuid));
  return (
    <List
      label="Nodes of the batch"
      head={["Node", "Wave", "Result", "Error", "Begun", "Ended", "Run"]}
      rows={nodes.map((node) => nodeRow(node, marked.get(node.uuid), erasing))}
    />
  );
}

const NONE_MARKED = new Map<string, Json>();

/** Whether nodes are retired or protected, by their UUIDs; nothing while it is not read. */
function useMarked(uuids: string[]): Map<string, Json> {
  const { found } = useReading((abort) => readNodes(uuids, "retired,protected", abort), [uuids.join()]);
  return found ?? NONE_MARKED; // The list is shown without them.
}

/** Its name at the beginning of the batch may be that of another node now. */
const memberLink = (node: Json) => link(path("nodes", node.uuid), nameOf(node));

/** @param erasing whether its run may erase disks */
const nodeRow = (node: Json, marked: Json | undefined, erasing: boolean) => [
  <>
    {memberLink(node)}
    <Marks node={marked} />
  </>,
  node.wave + 1,
  <Result result={node.result} />,
  wording(node.error?.text ?? node.error, node),
  stamp(node.started_at),
  stamp(node.ended_at),
  node.run && (
    <>
      {link(path("nodes", node.uuid, "runs", node.run), "run")}
      {erasing && <> {link(path("nodes", node.uuid, "erasures"), "erasures")}</>}
    </>
  ),
];
