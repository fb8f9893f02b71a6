/** Values of nodes that only some columns show: they are read when such a column is chosen. */
import { useEffect } from "preact/hooks";
import { oneAtATime, pages } from "../wire/api";
import { type Json } from "../wire/json";
import { fleet } from "./nodes";

/** Columns, the field of the API that has their value, and the value. */
const READ: Record<string, [string, (field: Json) => unknown]> = {
  rack: ["extra", (extra) => extra.rack],
  bmc: ["driver_info", bmcOf],
};
export const READ_COLUMNS = Object.keys(READ);

const AGAIN_MS = 60_000;

/** @returns the host of the BMC: the addresses of all drivers end so */
export function bmcOf(info: Json): string {
  const [, address] = Object.entries(info).find(([name]) => /_(address|endpoint)$/.test(name)) ?? [];
  return String(address ?? "")
    .replace(/^\w+:\/\/(?:[^@/]*@)?/, "")
    .replace(/\/.*/, "");
}

/** Read what these columns show of all nodes, and again now and then. */
export function useColumns(columns: string[]) {
  const chosen = columns.filter((name) => name in READ);
  const text = chosen.join();
  useEffect(() => {
    if (!text) return undefined;
    const fields = new Set(chosen.map((name) => READ[name]![0]));
    const reading = oneAtATime(async (abort) => {
      try {
        const list = `/v1/nodes?fields=uuid,${[...fields].join()}&limit=1000`;
        for await (const page of pages(list, "nodes", abort)) {
          for (const row of page) {
            const node = fleet.nodes.get(row.uuid);
            for (const name of node ? chosen : []) {
              const [field, valueOf] = READ[name]!;
              node![name] = valueOf(row[field] ?? {}) ?? "";
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
  }, [text, fleet.status.value]);
}
