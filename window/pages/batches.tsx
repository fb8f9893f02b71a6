/** Batches: the list, and one batch with its waves and nodes. */
import { useEffect, useState } from "preact/hooks";
import { VERBS } from "../facts";
import { confirmationOf, NUMBER } from "../parts/confirm";
import { Members } from "../parts/members";
import { openSimple } from "../parts/openers";
import { COPY, copyOf, DocumentList, LIST_MS, Skeleton, useDocument, wrong } from "../parts/read";
import { bdi, link, Result, stamp } from "../parts/text";
import { MenuCurl, pauseBatch, useShown } from "../parts/toasts";
import { batchTitle, expected, HALF, many, POWERS, stepName, verb } from "../parts/words";
import { actors } from "../state/actors";
import { budgetOf, ENDED, outcome, pauseOf } from "../state/batches";
import { path, route } from "../state/route";
import { type Json } from "../wire/json";

const BATCH_MS = 2000;
const FIELDS_OF_BATCH = "uuid,name,state,wave,waves,counts,requester,created_at,ended_at,request";

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
          <Outcome batch={batch} />,
          `${batch.wave + 1} of ${batch.waves.length}`,
          counted(batch.counts),
          actors(batch).person,
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
  const open = !ENDED.includes(body.state);
  const paused = pauseOf(body);
  return (
    <>
      {wrong(fault, own, at)}
      <header class="node-head">
        <h1>{bdi(batchTitle(body))}</h1>
        <Outcome batch={body} /> {body.request && <span>{bdi(asks(body.request))}</span>}
        <span>
          wave {body.wave + 1} of {body.waves.length}
        </span>
        <span>{counted(body.counts)}</span>
        <MenuCurl path={`${own}?wait=50&until=done`} label="wait for its end" />
      </header>
      {body.state === "paused" && (
        <p class="says">
          Paused{paused && <> {bdi(paused)}</>}. Left to do: {many(body.counts.pending)}.
        </p>
      )}
      {open && (
        <p>
          {body.eta && `ends ${expected({ ends_at: body.eta })} `}
          {body.eta ? `(${budgetOf(body)})` : budgetOf(body)}
        </p>
      )}
      {open && <Controls own={own} batch={body} reload={reload} />}
      <Members own={own} batch={body} />
    </>
  );
}

/** The state of a batch; one that is done with failures is no success. */
function Outcome({ batch }: { batch: Json }) {
  const words = outcome(batch);
  if (words === batch.state) return <Result result={batch.state} />;
  return (
    <span class="result warning">
      <span class="sign" aria-hidden="true">
        ▲
      </span>{" "}
      {words}
    </span>
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
  const paused = pauseOf(batch);
  const why = paused && `Paused ${paused}. `;
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
      <button onClick={act("Abort", { target: "abort" }, "none", `Skips ${rest}.`)}>Abort…</button>
      <button
        onClick={act(
          "Abort with its runs",
          { target: "abort", runs: "abort" },
          "none",
          `Skips ${rest}; runs under way end as soon as they can. ${HALF}`,
        )}
      >
        Abort with its runs…
      </button>
    </div>
  );
}
