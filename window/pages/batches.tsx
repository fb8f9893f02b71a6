/** Batches: the list, and one batch with its waves and nodes. */
import { useEffect, useState } from "preact/hooks";
import { VERBS } from "../facts";
import { openNext } from "../parts/bulk";
import { confirmationOf, NUMBER } from "../parts/confirm";
import { openSimple } from "../parts/openers";
import {
  COPY,
  copyOf,
  DocumentList,
  DocumentView,
  List,
  LIST_MS,
  Skeleton,
  useDocument,
  wrong,
} from "../parts/read";
import { bdi, link, Marks, nodeLink, Result, stamp } from "../parts/text";
import { Curl, pauseBatch, useShown } from "../parts/toasts";
import {
  batchTitle,
  erases,
  expected,
  HALF,
  many,
  POWERS,
  stepName,
  sum,
  verb,
  wording,
} from "../parts/words";
import { href, path, route } from "../state/route";
import { pages } from "../wire/api";
import { type Json } from "../wire/json";

const BATCH_MS = 2000;
const FIELDS_OF_BATCH = "uuid,name,state,wave,waves,counts,requester,created_at,ended_at,request";
const ENDED = ["done", "aborted"];

export function BatchesPage() {
  if (route.value.parts[1]) return <Batch key={route.value.parts[1]} />;
  return (
    <>
      <h1>Batches</h1>
      <p>Select nodes on the page Fleet, then press Batch.</p>
      <DocumentList
        path={`/v1/batches?limit=200&fields=${FIELDS_OF_BATCH}`}
        each={LIST_MS}
        label="Batches"
        of="batches"
        day={(batch) => batch.created_at}
        head={["Batch", "Request", "State", "Wave", "Nodes", "By", "Made", "Ended", COPY]}
        row={(batch) => [
          link(path("batches", batch.uuid), batchTitle(batch)),
          asks(batch.request),
          <Result result={batch.state} />,
          `${batch.wave + 1} of ${batch.waves.length}`,
          counted(batch.counts),
          batch.requester,
          stamp(batch.created_at, batch.created_at),
          stamp(batch.ended_at, batch.created_at),
          copyOf("batches", batch.uuid),
        ]}
      />
    </>
  );
}

/** @returns what a batch asks of each node */
function asks({ power, target, ...more }: Json): string {
  const lists = Object.values(more).filter(Array.isArray).flat();
  const names = lists.filter((step) => step?.step).map(stepName);
  return [verb(power ?? target ?? ""), more.runbook, ...names].filter(Boolean).join(", ");
}

const counted = (counts: Json) =>
  Object.entries(counts)
    .filter(([, count]) => count)
    .map(([name, count]) => `${count} ${name}`)
    .join(", ");

function Batch() {
  const own = path("batches", route.value.parts[1] ?? "");
  const [over, setOver] = useState(false);
  const { body, fault, at, reload } = useDocument(own, { each: over ? 0 : BATCH_MS });
  useEffect(() => setOver(!!body?.ended_at), [body]);
  useShown(body ? own : "");
  if (!body) return wrong(fault, own) ?? <Skeleton />;
  const failed = body.counts.failed + body.counts.refused;
  return (
    <>
      {wrong(fault, own, at)}
      <header class="node-head">
        <h1>{bdi(batchTitle(body))}</h1>
        <Result result={body.state} /> {body.request && <span>{bdi(asks(body.request))}</span>}
        <span>
          wave {body.wave + 1} of {body.waves.length}
        </span>
        <span>{counted(body.counts)}</span> <Curl path={`${own}?wait=50&until=done`} />
      </header>
      {body.paused_by && (
        <p class="says">
          Paused: {bdi(body.paused_by)}. Left to do: {many(body.counts.pending)}.
        </p>
      )}
      {!ENDED.includes(body.state) && <Controls own={own} batch={body} reload={reload} />}{" "}
      <Waves own={own} batch={body} />
      {!ENDED.includes(body.state) && (
        <p>
          {failed} failed or refused; {many(body.failures_left, "more failure")} allowed.
          {body.eta && ` ${expected({ ends_at: body.eta })}`}
        </p>
      )}
      <BatchNodes own={own} batch={body} />
    </>
  );
}

function Controls({ own, batch, reload }: { own: string; batch: Json; reload: () => void }) {
  const { pending } = batch.counts;
  const rest = many(pending);
  const { power, target } = batch.request ?? {};
  const requested = power ?? target;
  const used =
    POWERS.includes(requested) ||
    VERBS.some((row) => row.target === requested && row.from.includes("active"));
  const act = (label: string, body: Json, kind: string, says: string) => () =>
    openSimple({
      title: label.replace(/\w+/, "$& this batch"),
      kind,
      method: "PUT",
      path: `${own}/state`,
      body,
      of: own,
      says,
      name: String(pending),
      what: NUMBER,
      on: rest,
      button: label,
      reload,
    });
  const why = batch.paused_by ? `Paused: ${batch.paused_by}. ` : "";
  return (
    <div class="actions">
      {batch.state === "running" ? (
        <button
          title={`Nothing starts on ${rest} until you resume it.`}
          onClick={() => pauseBatch(own, reload)}
        >
          Pause
        </button>
      ) : (
        <button
          onClick={act(
            "Resume",
            { target: "resume" },
            requested ? confirmationOf(requested, used) : "name",
            `${why}${requested ? verb(requested) : "The request"} goes on with ${rest}.`,
          )}
        >
          Resume…
        </button>
      )}
      <button onClick={act("Abort", { target: "abort" }, "tick", `Skips ${rest}.`)}>Abort…</button>
      <button
        onClick={act(
          "Abort with its runs",
          { target: "abort", runs: "abort" },
          "tick",
          `Skips ${rest}; runs under way end as soon as they can. ${HALF}`,
        )}
      >
        Abort with its runs…
      </button>
    </div>
  );
}

function Waves({ own, batch }: { own: string; batch: Json }) {
  const { pending, starting, running, skipped, failed, refused } = batch.counts;
  const wrong = failed + refused;
  const { body } = useDocument(wrong ? `${own}/nodes?limit=1000&result=failed,refused` : null, {
    again: wrong,
  });
  const over = sum(batch.waves) - pending - starting - running - skipped;
  let before = 0;
  return (
    <ol class="waves">
      {batch.waves.map((size: number, at: number) => {
        const ended = Math.max(0, Math.min(size, over - before));
        before += size;
        const bad = body?.nodes.filter((node: Json) => node.wave === at).length;
        const more = body?.next && bad ? " or more" : "";
        return (
          <li class={bad ? "failed" : ""} aria-current={at === batch.wave ? "step" : undefined}>
            wave {at + 1} <progress aria-label={`wave ${at + 1}`} max={size} value={ended} />{" "}
            {bad && !more
              ? `${ended - bad} done, ${bad} failed`
              : `${ended}/${size}${more && `, ${bad} or more failed`}`}
          </li>
        );
      })}
    </ol>
  );
}

function BatchNodes({ own, batch }: { own: string; batch: Json }) {
  const result = route.value.query.get("result") ?? "";
  const list = `${own}/nodes?limit=500${result ? `&result=${encodeURIComponent(result)}` : ""}`;
  const draw = (body: Json) => (
    <>
      <div class="filters">
        {["", ...Object.keys(batch.counts).filter((name) => batch.counts[name] || name === result)].map(
          (name) => (
            <a
              class="button"
              aria-current={name === result ? "true" : undefined}
              href={href(own, name ? { result: name } : {})}
            >
              {name || "all"} {name ? batch.counts[name] : ""}
            </a>
          ),
        )}
        {batch.counts.failed > 0 && (
          <button onClick={() => openNext(batch, "failed", body.nodes, "retry")}>Retry the failed…</button>
        )}
        {ENDED.includes(batch.state) && batch.request?.target === "manage" && batch.counts.done > 0 && (
          <button onClick={() => openNext(batch, "done", body.nodes, "clean")}>Clean the managed…</button>
        )}
      </div>
      <NodeList nodes={body.nodes} erasing={erases(batch.request?.target)} />
    </>
  );
  return <DocumentView path={list} again={JSON.stringify(batch.counts)} draw={draw} />;
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

/** As many UUIDs as one request may name. */
const UUIDS_AT_ONCE = 150;

/** Whether nodes are retired or protected, by their UUIDs; nothing while it is not read. */
function useMarked(uuids: string[]): Map<string, Json> {
  const [found, setFound] = useState(new Map<string, Json>());
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      const nodes = new Map<string, Json>();
      for (let at = 0; at < uuids.length; at += UUIDS_AT_ONCE) {
        const some = uuids.slice(at, at + UUIDS_AT_ONCE).join();
        const list = `/v1/nodes?uuid=${some}&fields=uuid,retired,protected`;
        for await (const page of pages(list, "nodes", abort.signal))
          for (const node of page) nodes.set(node.uuid, node);
      }
      setFound(nodes);
    };
    read().catch(() => undefined); // The list is shown without them.
    return () => abort.abort();
  }, [uuids.join()]);
  return found;
}

/** @param erasing whether its run may erase disks */
const nodeRow = (node: Json, marked: Json | undefined, erasing: boolean) => [
  <>
    {nodeLink(node)}
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
