/** What has happened on a node: its runs and its history. */
import { href, path } from "../state/route";
import { type Json } from "../wire/json";
import { DocumentList } from "./read";
import { RUN_HEAD, runRow } from "./run";
import { stamp } from "./text";

/** @param props `turn` moves when something has happened on the node */
export function Activity({ node, turn }: { node: Json; turn: number }) {
  const own = path("nodes", node.uuid);
  return (
    <>
      <h2>Runs</h2>
      <DocumentList
        path={`${own}/runs?limit=50`}
        again={turn}
        label="Runs"
        bare
        head={RUN_HEAD}
        of="runs"
        day={(run) => run.started_at}
        row={runRow}
      />
      <h2>History</h2>
      <DocumentList
        path={`${own}/history?limit=100&sort_dir=desc`}
        again={turn}
        label="History"
        bare
        of="history"
        head={["At", "Severity", "Event"]}
        row={(entry) => [stamp(entry.created_at), entry.severity, entry.event]}
      />
      <p>
        <a href={href("/v1/events", { node: node.uuid })}>Events of this node</a>
      </p>
    </>
  );
}
