/** Values of nodes that only some columns show: they are read when such a column is chosen. */
import { useEffect } from "preact/hooks";
import { oneAtATime, pages } from "../wire/api";
import { type Json } from "../wire/json";
import { bmcOf, rackOf, serialOf } from "./machines";
import { fleet } from "./nodes";
import { route } from "./route";

/** Columns, the fields of the API that have their value, and the value. */
const READ: Record<string, [string[], (row: Json) => string]> = {
  rack: [["extra", "properties"], rackOf],
  bmc: [["driver_info"], (row) => bmcOf(row.driver_info)],
  serial: [["serial", "properties"], serialOf],
};
export const READ_COLUMNS = Object.keys(READ);

const AGAIN_MS = 60_000;

/** Read what these columns show of the nodes that are held, and again now and then. */
export function useColumns(columns: string[]) {
  const chosen = columns.filter((name) => name in READ);
  const text = chosen.join();
  // Of a very large fleet the list has the nodes of the filter alone.
  const filter = fleet.status.value === "partial" ? `&${route.value.query}` : "";
  useEffect(() => {
    if (!text) return undefined;
    const fields = new Set(chosen.flatMap((name) => READ[name]![0]));
    const reading = oneAtATime(async (abort) => {
      try {
        const list = `/v1/nodes?fields=uuid,${[...fields].join()}&limit=1000${filter}`;
        for await (const page of pages(list, "nodes", abort)) {
          for (const row of page) {
            const node = fleet.nodes.get(row.uuid);
            for (const name of node ? chosen : []) {
              node![name] = READ[name]![1](row);
            }
          }
          fleet.tick.value += 1;
        }
      } catch {
        // The list of the fleet tells the same fault.
      }
    });
    reading.now();
    const timer = setInterval(() => document.hidden || reading.now(), AGAIN_MS);
    return () => {
      clearInterval(timer);
      reading.stop();
    };
  }, [text, fleet.status.value, filter]);
}
