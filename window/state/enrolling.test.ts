import { afterEach, expect, test, vi } from "vitest";
import { Enrolling } from "./enrolling";

type Sent = { method: string; url: string; headers: Record<string, string>; body: any };

const JSON_TYPE = { "Content-Type": "application/json", "X-OpenStack-Request-Id": "req-1", ETag: '"7"' };
const answer = (body: unknown, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: JSON_TYPE });

/**
 * A service with one node, whose work ends at once.
 * @param first answers some requests otherwise
 * @returns changes that were sent, and the node
 */
function serve(first: (sent: Sent) => Promise<Response> | undefined = () => undefined) {
  const changes: Sent[] = [];
  const node: any = { provision_state: "enroll", target_provision_state: null, last_error: null };
  const after: Record<string, string> = { manage: "manageable", provide: "available" };
  vi.stubGlobal("fetch", async (url: string, { method = "GET", headers, body }: any = {}) => {
    const sent = { method, url, headers, body: body && JSON.parse(body) };
    if (method !== "GET") changes.push(sent);
    const other = first(sent);
    if (other) return await other;
    if (method === "POST") Object.assign(node, sent.body);
    if (method === "PUT") node.provision_state = after[sent.body.target];
    if (url.includes("/doctor")) return answer({ checks: [] });
    return answer(url.includes("?uuid=") ? { nodes: [node] } : node, method === "PUT" ? 202 : 200);
  });
  return { changes, node };
}

/** Where a change was sent to, and what it asks. */
const said = ({ method, body }: Sent) => (method === "PUT" ? body.target : method);

function table(goal: "enroll" | "manage" | "available") {
  const work = new Enrolling();
  work.load([{ name: "r1", redfish_address: "bmc1", redfish_password: "pw" }], () => goal);
  const infoOf = ({ name: _, ...info }: Record<string, string>) => info;
  work.judge({ driver: "redfish", infoOf, faultOf: () => "" });
  return { work, row: work.rows.value[0]! };
}

const soon = { timeout: 5000, interval: 20 };

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("a machine is taken as far as its row says", async () => {
  const { changes } = serve();
  const { work, row } = table("available");
  work.start();
  await vi.waitFor(() => expect(row.value.stage).toBe("done"), soon);
  expect(changes.map(said)).toEqual(["POST", "manage", "provide"]);
});

test("a table that closes while the service is asked to manage erases nothing", async () => {
  let managed: (response: Response) => void = () => undefined;
  const { changes, node } = serve(({ method, body }) =>
    method === "PUT" && body.target === "manage" ? new Promise((resolve) => (managed = resolve)) : undefined,
  );
  const { work } = table("available");
  work.start();
  await vi.waitFor(() => expect(changes.map(said)).toEqual(["POST", "manage"]), soon);
  vi.useFakeTimers();
  work.stop();
  node.provision_state = "manageable";
  managed(answer(null, 202));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(changes.map(said)).toEqual(["POST", "manage"]);
});

test("a table that closes while the service is too busy sends nothing more", async () => {
  const { changes } = serve(({ method }) =>
    method === "PUT" ? Promise.resolve(answer({ faultstring: "Too busy." }, 503)) : undefined,
  );
  vi.useFakeTimers();
  const { work, row } = table("available");
  work.start();
  // After the tries of one request, the table waits before the next one.
  await vi.advanceTimersByTimeAsync(4000);
  expect(row.value.text).toBe("Too busy.");
  const before = changes.length;
  work.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(changes).toHaveLength(before);
});

test("a table that closes during the pause after a refusal does not send the change once more", async () => {
  const { changes } = serve(({ method }) =>
    method === "POST" ? Promise.resolve(answer({ faultstring: "Too busy." }, 503)) : undefined,
  );
  vi.useFakeTimers();
  const { work } = table("enroll");
  work.start();
  await vi.advanceTimersByTimeAsync(500);
  expect(changes.map(said)).toEqual(["POST"]);
  work.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(changes.map(said)).toEqual(["POST"]);
});

test("a row may name another driver than that of all", async () => {
  const { changes } = serve();
  const work = new Enrolling();
  work.load([{ name: "r1", driver: "ipmi" }, { name: "r2" }], () => "enroll");
  work.judge({ driver: "redfish", infoOf: () => ({}), faultOf: () => "" });
  work.start();
  await vi.waitFor(() => expect(changes.map(({ body }) => body.driver)).toEqual(["ipmi", "redfish"]), soon);
});

test("a machine that is taken further gets what was corrected alone, as it was read", async () => {
  const { changes } = serve();
  const { work, row } = table("manage");
  work.start();
  await vi.waitFor(() => expect(row.value.stage).toBe("done"), soon);
  work.aim(row, "available");
  work.start();
  await vi.waitFor(() => expect(row.value.stage).toBe("done"), soon);
  expect(changes.map(said)).toEqual(["POST", "manage", "provide"]);
  work.correct(row, { name: "r1", redfish_address: "bmc1", redfish_password: "new" });
  work.start();
  await vi.waitFor(() => expect(row.value.stage).toBe("done"), soon);
  const { method, body, headers } = changes[3]!;
  expect(method).toBe("PATCH");
  expect(body).toEqual([{ op: "add", path: "/driver_info/redfish_password", value: "new" }]);
  expect(headers["If-Match"]).toBe('"7"');
}, 20_000);

test("a row keeps what the user corrected when the columns change", () => {
  const { work, row } = table("enroll");
  work.correct(row, { name: "r2", redfish_address: "bmc1" });
  work.aim(row, "manage", true);
  const goal = ({ goal: word }: Record<string, string>) => (word === "manage" ? "manage" : "enroll");
  work.load([{ name: "r1", redfish_username: "root", redfish_password: "pw" }, { name: "r9" }], goal);
  expect(work.rows.value).toHaveLength(2);
  expect(work.rows.value[0]).toBe(row);
  expect(row.value.values).toEqual({ name: "r2", redfish_username: "root", goal: "manage" });
  expect(row.value.goal).toBe("manage");
  // Without its head, the table has one row more, above.
  work.load([{ name: "r9" }], () => "enroll", 1);
  expect(work.rows.value[0]!.value.values).toEqual({ name: "r9" });
});

test("a row is busy while its node is deleted", async () => {
  let free: (response: Response) => void = () => undefined;
  serve(({ method }) => (method === "DELETE" ? new Promise((resolve) => (free = resolve)) : undefined));
  const { work, row } = table("enroll");
  work.put(row, { tried: true, made: true, stage: "failed" });
  const end = work.discard(row);
  expect(row.value.stage).toBe("busy");
  await vi.waitFor(
    () => (free(new Response(null, { status: 204 })), expect(row.value.stage).toBe("discarded")),
    soon,
  );
  await end;
});
