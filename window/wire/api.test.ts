import { afterEach, describe, expect, test, vi } from "vitest";
import { ask, Fault, keeper, local, monitor, pages, parsed, sendChange, sentence, oneAtATime } from "./api";
import { logOut } from "./login";

type Sent = { url: string; method: string; headers: Record<string, string>; body: string | null };

/** Answer requests one after the other, and return what was sent. */
function serve(...answers: (() => Response)[]): Sent[] {
  const sent: Sent[] = [];
  vi.stubGlobal("fetch", async (url: string, { method, headers, body }: any) => {
    if (url.endsWith("/v1")) return new Response("{}"); // The service is up.
    sent.push({ url, method, headers, body });
    const next = answers.shift();
    if (!next) throw new TypeError("no network");
    return next();
  });
  return sent;
}

const OURS = { "X-OpenStack-Request-Id": "req-1" };
const answer =
  (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  () =>
    new Response(typeof body === "string" ? body : JSON.stringify(body), {
      status,
      headers: { "Content-Type": "application/json", ...OURS, ...headers },
    });

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
  logOut();
});

describe("refusals", () => {
  test("the sentence is that of the fault, in either form", () => {
    expect(sentence('{"faultstring": "Node is locked."}')).toBe("Node is locked.");
    const inner = JSON.stringify({ faultstring: "Not found." });
    expect(sentence(JSON.stringify({ error_message: inner }))).toBe("Not found.");
    expect(sentence("bad gateway")).toBe("bad gateway");
  });

  test("a blank text is no document, and a broken one is null", () => {
    expect(parsed("  ")).toBeUndefined();
    expect(parsed("{")).toBeNull();
    expect(parsed("[1]")).toEqual([1]);
  });

  test("a fault has status, request and address", async () => {
    serve(answer({ faultstring: "It is held." }, 409, { "Retry-After": "3" }));
    const fault = await ask("PUT", "/v1/nodes/n1/states/power").catch((error) => error);
    expect(fault).toBeInstanceOf(Fault);
    expect(fault).toMatchObject({ status: 409, request: "req-1", retryAfter: 3, message: "It is held." });
  });
});

describe("changes", () => {
  test("a lost answer is asked for again with the same key", async () => {
    vi.useFakeTimers();
    const lost = () => {
      throw new TypeError("no network");
    };
    const sent = serve(lost, answer({}, 202));
    const change = sendChange({ method: "PUT", path: "/v1/nodes/n1/states/power", body: {}, tag: '"5"' });
    await vi.runAllTimersAsync();
    expect((await change).status).toBe(202);
    const [first, second] = sent.map(({ headers }) => headers);
    expect(first?.["Idempotency-Key"]).toBeTruthy();
    expect(second?.["Idempotency-Key"]).toBe(first?.["Idempotency-Key"]);
    expect(second?.["If-Match"]).toBe('"5"');
  });

  test("a lost answer is asked for by the same key, though the node has another version by now", async () => {
    vi.useFakeTimers();
    const lost = () => {
      throw new TypeError("no network");
    };
    const sent = serve(lost, lost, lost, answer({}));
    const send = keeper();
    const change = {
      method: "PATCH",
      path: "/v1/nodes/n1",
      body: [{ op: "add", path: "/extra/l/-", value: 1 }],
    };
    const first = expect(send({ ...change, tag: '"5"' })).rejects.toThrow("No answer");
    await vi.runAllTimersAsync();
    await first;
    expect(send.keyOf({ ...change, tag: '"6"' })).toBeTruthy();
    await send({ ...change, tag: '"6"' });
    expect(new Set(sent.map(({ headers }) => headers["Idempotency-Key"])).size).toBe(1);
  });

  test("a lasting refusal is not repeated", async () => {
    const sent = serve(answer({ faultstring: "Held." }, 409));
    await expect(sendChange({ method: "PUT", path: "/v1/x" })).rejects.toThrow("Held.");
    expect(sent).toHaveLength(1);
  });

  test("a locked node is waited for by the service", async () => {
    vi.useFakeTimers();
    const sent = serve(answer({ faultstring: "Locked." }, 409, { "Retry-After": "1" }), answer({}, 202));
    const change = sendChange({ method: "PUT", path: "/v1/x" });
    await vi.runAllTimersAsync();
    await change;
    expect(sent[1]?.headers.Prefer).toBe("respond-async, wait=10");
  });
});

test("lists are read page by page", async () => {
  const next = "http://other.example/prefix/v1/nodes?marker=b";
  const sent = serve(answer({ nodes: ["a", "b"], next }), answer({ nodes: ["c"] }));
  const found: string[][] = [];
  for await (const page of pages("/v1/nodes", "nodes")) found.push(page);
  expect(found).toEqual([["a", "b"], ["c"]]);
  expect(sent.map(({ url }) => url)).toEqual([
    "http://127.0.0.1:6385/v1/nodes",
    "http://127.0.0.1:6385/v1/nodes?marker=b",
  ]);
});

test("the run that follows is the monitor of the answer", () => {
  expect(monitor('</v1/nodes/n1/runs/r1>; rel="monitor"')).toBe("/v1/nodes/n1/runs/r1");
  expect(monitor('</v1/nodes>; rel="next"')).toBeNull();
  expect(local("http://127.0.0.1:6385/v1/runs?limit=1")).toBe("/v1/runs?limit=1");
});

describe("repeated readings", () => {
  test("none is given up for the next one, and a change is read after it", async () => {
    const ends: (() => void)[] = [];
    const reading = oneAtATime(() => new Promise<void>((resolve) => ends.push(resolve)));
    reading.now();
    reading.now();
    expect(ends).toHaveLength(1);
    reading.again();
    reading.again();
    ends[0]?.();
    await vi.waitFor(() => expect(ends).toHaveLength(2));
    ends[1]?.();
    await Promise.resolve();
    expect(ends).toHaveLength(2);
  });

  test("a stopped one is not begun again", async () => {
    const ends: (() => void)[] = [];
    let given: AbortSignal | undefined;
    const reading = oneAtATime(
      (abort) => new Promise<void>((resolve) => ((given = abort), ends.push(resolve))),
    );
    reading.now();
    reading.again();
    reading.stop();
    expect(given?.aborted).toBe(true);
    ends[0]?.();
    await Promise.resolve();
    expect(ends).toHaveLength(1);
  });
});
