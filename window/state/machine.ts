/** Requests that make a machine and check it, and the machines that exist. */
import { type Answer, type Fault, get, pages, type sendChange, sleep } from "../wire/api";
import { type Answers } from "../wire/documents";
import { type Json } from "../wire/json";
import { path } from "./route";
import { bmcOf, know, type Known, macsOf, nobody } from "./sheet";

export type Check = Answers["/v1/doctor"]["checks"][number];

type Send = (change: Parameters<typeof sendChange>[0]) => Promise<Answer>;

/**
 * @param made its UUID if the node exists
 * @param fields of the node; what is empty is left out
 * @returns the request that makes the node, or makes it like these
 */
export function requestOf(made: string | null, fields: Json) {
  const body = Object.fromEntries(Object.entries(fields).filter(([, value]) => value)) as Json;
  if (!made) return { method: "POST", path: "/v1/nodes", body };
  const operations = Object.entries(body).map(([field, value]) => ({ op: "add", path: `/${field}`, value }));
  return { method: "PATCH", path: path("nodes", made), body: operations };
}

/** @returns fields of a node by their path, each key of driver_info by itself; what is empty is left out */
export function flat({ driver_info: info, ...fields }: Json): Json {
  const keys = Object.entries(info ?? {}).map(([key, value]) => [`driver_info/${key}`, value] as const);
  return Object.fromEntries([...Object.entries(fields), ...keys].filter(([, value]) => value));
}

/**
 * @param sent what the node was given
 * @param fields what it shall have
 * @param now the node as it is
 * @returns the patch of what differs: another person may have changed the rest
 */
export function patchOf(sent: Json, fields: Json, now: Json): Json[] {
  const [before, after, held] = [flat(sent), flat(fields), flat(now)];
  const differs = (name: string) => JSON.stringify(before[name]) !== JSON.stringify(after[name]);
  return Object.keys({ ...before, ...after })
    .filter((name) => differs(name) && (name in after || name in held))
    .map((name) =>
      name in after
        ? { op: "add", path: `/${name}`, value: after[name] }
        : { op: "remove", path: `/${name}` },
    );
}

/**
 * Give a node these ports.
 * @param made UUIDs of the ports that it has by their address; changed at once
 */
export async function setPorts(send: Send, node: string, addresses: string[], made: Map<string, string>) {
  for (const [address, uuid] of made) {
    if (addresses.includes(address)) continue;
    await send({ method: "DELETE", path: path("ports", uuid) });
    made.delete(address);
  }
  for (const address of addresses) {
    if (made.has(address)) continue;
    const { body } = await send({ method: "POST", path: "/v1/ports", body: { node_uuid: node, address } });
    made.set(address, body.uuid);
  }
}

/** @returns whether there is such a document */
export const isThere = (from: string): Promise<boolean> =>
  get(from).then(
    () => true,
    (fault: Fault) => {
      if (fault.status === 404) return false;
      throw fault;
    },
  );

/** After this time something is asked for again that the service has no room for. */
const FULL_MS = 5000;

/** Repeat a request while the service is too busy for it. */
export async function whenFree<Result>(
  ask: () => Promise<Result>,
  onBusy: (text: string) => void,
  stopped: () => boolean,
) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const { status, message, retryAfter } = error as Fault;
      if (status !== 503 || stopped()) throw error;
      onBusy(message);
      await sleep(retryAfter * 1000 || FULL_MS);
      if (stopped()) throw error;
    }
  }
}

/** @returns what doctor finds about a node */
export async function examine(
  node: string,
  onBusy: (text: string) => void = () => undefined,
  stopped: () => boolean = () => false,
): Promise<Check[]> {
  const { body } = await whenFree(() => get(`/v1/doctor?node=${node}`), onBusy, stopped);
  return body.checks.filter((check: Check) => check.where?.startsWith("node "));
}

/** Checks of the way to the BMC; what fails in others does not keep a machine from being managed. */
export const ofBmc = ({ name }: Check) => /^(bmc_.*|ipmitool|power)$/.test(name);

/** @returns the machines that exist, as far as the caller may read them */
export async function readKnown(abort: AbortSignal): Promise<Known> {
  const known = nobody();
  const names = new Map<string, string>();
  for await (const nodes of pages("/v1/nodes?fields=uuid,name,driver_info&limit=1000", "nodes", abort))
    for (const { uuid, name, driver_info: info } of nodes) {
      names.set(uuid, name ?? uuid);
      know({ name: name ?? "", macs: [], bmc: bmcOf(info ?? {}) }, name ?? uuid, known);
    }
  for await (const ports of pages("/v1/ports?fields=address,node_uuid&limit=1000", "ports", abort))
    for (const { address, node_uuid: node } of ports)
      know({ name: "", macs: macsOf(address), bmc: "" }, names.get(node) ?? node, known);
  return known;
}
