/** Earlier runs beside one, step by step. */
import { duration } from "../state/clock";
import { comparisonOf } from "../state/gantt";
import { href, path } from "../state/route";
import { get } from "../wire/api";
import { type Json } from "../wire/json";
import { List, Skeleton, wrong } from "./read";
import { useReading } from "./reading";
import { bdi, Result, stamp } from "./text";
import { stepName } from "./words";

/** The last runs of the same verb beside this one. */
export function Compared({ run, of, most }: { run: Json; of: "node" | "class"; most: number }) {
  const { found: runs, fault } = useReading((abort) => earlierRuns(run, of, most, abort), [run.uuid, of]);
  if (fault) return wrong(fault);
  if (runs === undefined) return <Skeleton rows={2} />;
  if (!runs?.length)
    return <p role="status">{runs ? "No earlier run." : "The node has no resource class."}</p>;
  return <Durations runs={[run, ...runs]} named={of === "class"} />;
}

/** @returns runs of the same verb that began before this one; null: the node has no class */
async function earlierRuns(
  { node_uuid: node, verb: done, started_at: before }: Json,
  of: "node" | "class",
  most: number,
  abort: AbortSignal,
): Promise<Json[] | null> {
  const query = new URLSearchParams({ verb: done, before, limit: String(most), fields: "uuid" });
  if (of === "node") query.set("node", node);
  else {
    const { body } = await get(`${path("nodes", node)}?fields=resource_class`, abort);
    if (!body.resource_class) return null;
    query.set("resource_class", body.resource_class);
  }
  const { body } = await get(`/v1/runs?${query}`, abort);
  return Promise.all(
    body.runs.map(async ({ uuid }: Json) => (await get(path("runs", uuid), abort)).body as Json),
  );
}

/** @param props `runs`: the first is the one that is compared; `named`: the runs are of several nodes */
function Durations({ runs, named }: { runs: Json[]; named: boolean }) {
  const steps = comparisonOf(runs, stepName);
  const title = (run: Json, at: number) =>
    at ? (
      <>
        <Result result={run.state} word={false} />{" "}
        <a href={href(path("nodes", run.node_uuid, "runs", run.uuid))}>
          {named && <>{bdi(run.node_name ?? run.node_uuid)} </>}
          {stamp(run.started_at)}
        </a>
      </>
    ) : (
      <>
        <Result result={run.state} word={false} /> this run
      </>
    );
  return (
    <List
      label="Durations in earlier runs"
      head={["Run", "In all", ...steps.map(({ name }) => name)]}
      numbers
      rows={runs.map((run, at) => [
        title(run, at),
        run.ended_at && duration(run.duration_seconds, true),
        ...steps.map(({ seconds, failed }) => (
          <>
            {failed[at] && <Result result="failed" word={false} />} {duration(seconds[at] ?? null, true)}
          </>
        )),
      ])}
    />
  );
}
