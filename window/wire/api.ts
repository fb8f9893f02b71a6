/** Requests to the API of the same origin: refusals, and changes that are sent once. */
import { VERSION } from "../facts";
import { setClock } from "../state/clock";
import { answers, hear, ofGateway, OURS, reading, ROOT } from "./away";
import { askLogin, loginHeader, loginTurn, loginWanted } from "./login";

const LONGEST_SENTENCE = 500;

/** As many UUIDs as one request may name. */
export const UUIDS_AT_ONCE = 150;

/** A request that did not succeed: what the API said, or why there was no answer. */
export class Fault extends Error {
  status = 0;
  request = "";
  address = "";
  retryAfter = 0;

  /** @param text a sentence */
  constructor(
    text: string,
    facts?: { status?: number; request?: string; address?: string; retryAfter?: number },
  ) {
    super(text);
    Object.assign(this, facts);
  }
}

/**
 * @param text the body of a refusal: JSON, or `error_message` with JSON as a text
 * @returns its sentence
 */
export function sentence(text: string): string {
  const outer = parsed(text);
  const { faultstring, description } = parsed(outer?.error_message ?? "") ?? outer ?? {};
  return faultstring ?? description ?? text.slice(0, LONGEST_SENTENCE);
}

/** @returns undefined if it is blank, null if it is no JSON */
export function parsed(text: string): any {
  try {
    return text.trim() ? JSON.parse(text) : undefined;
  } catch {
    return null;
  }
}

/** @param text its body */
export function fault(answer: Response, text: string, address: string) {
  return new Fault(sentence(text) || `${answer.status} ${answer.statusText}`, {
    status: answer.status,
    request: answer.headers.get(OURS) ?? "",
    retryAfter: Number(answer.headers.get("Retry-After")) || 0, // A proxy may send a date.
    address,
  });
}

// -- Requests to the API of the same origin. One function sends all of them.

/** A request without an answer after this time is a reason to ask whether the service is there. */
const SLOW_MS = 10_000;
let credentials: RequestCredentials = "omit";

export interface Answer {
  status: number;
  /** JSON, text, or null */
  body: any;
  /** the ETag; "" without one */
  tag: string;
  /** the header Link */
  link: string;
}

/**
 * Send one request and return the response as it comes.
 * @param path begins with `/v1`
 * @throws Fault for a network error
 */
export async function open(
  method: string,
  path: string,
  {
    body,
    headers,
    signal: abort,
  }: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal | undefined } = {},
): Promise<Response> {
  const address = ROOT + path;
  const begun = new Date();
  const slow = setTimeout(() => void answers(begun), SLOW_MS);
  // A change goes on: it may have been made, and its answer says so.
  const ends = method === "GET" ? [reading()] : [];
  try {
    const answer = await fetch(address, {
      method,
      cache: "no-store",
      redirect: "manual",
      referrerPolicy: "no-referrer",
      credentials,
      signal: AbortSignal.any(abort ? [abort, ...ends] : ends),
      body: body === undefined ? null : JSON.stringify(body),
      headers: {
        ...(body !== undefined && { "Content-Type": "application/json" }),
        "X-OpenStack-Ironic-API-Version": VERSION,
        ...loginHeader(),
        ...headers,
      },
    });
    if (ofGateway(answer)) void answers(begun);
    else hear();
    setClock(answer.headers.get("Date"));
    return answer;
  } catch (error) {
    if (abort?.aborted && abort.reason?.name !== "TimeoutError") throw error;
    void answers(begun);
    throw new Fault(`No answer from ${address}. Is the service up?`, { address });
  } finally {
    clearTimeout(slow);
  }
}

/**
 * Send a request and read its whole answer.
 * @param options `accepts`: statuses beside 2xx that are no faults
 * @throws Fault for any other status
 */
export async function ask(
  method: string,
  path: string,
  options: {
    body?: unknown;
    headers?: Record<string, string>;
    signal?: AbortSignal | undefined;
    accepts?: number[];
  } = {},
): Promise<Answer> {
  const turn = loginTurn;
  const answer = await open(method, path, options);
  if (answer.type === "opaqueredirect" || foreign(answer)) return behindProxy(method, path, options);
  const text = await answer.text();
  // The refusal of a login that another one has replaced is late.
  if (answer.status === 401 && turn < loginTurn) return ask(method, path, options);
  if (answer.status === 401) return afterLogin(answer, method, path, options);
  if (!answer.ok && !options.accepts?.includes(answer.status)) {
    throw fault(answer, text, method + " " + path);
  }
  const json = answer.headers.get("Content-Type")?.includes("json");
  return {
    status: answer.status,
    body: json && text ? JSON.parse(text) : text || null,
    tag: answer.headers.get("ETag") ?? "",
    link: answer.headers.get("Link") ?? "",
  };
}

/** @returns true for the login page of a proxy, not for its 413 or 502 */
function foreign(answer: Response): boolean {
  return (
    answer.status < 404 && !answer.headers.has(OURS) && !!answer.headers.get("Content-Type")?.includes("html")
  );
}

/** Send it again with the cookies of a proxy that has a login of its own; its expiry needs a reload. */
function behindProxy(method: string, path: string, options: object): Promise<Answer> {
  if (credentials === "same-origin") {
    location.reload();
    return new Promise(() => {});
  }
  credentials = "same-origin";
  return ask(method, path, options);
}

/** Ask for a login and send the request again when there is one. */
function afterLogin(answer: Response, method: string, path: string, options: object): Promise<Answer> {
  const challenge = answer.headers.get("WWW-Authenticate") ?? "";
  askLogin(/^basic/i.test(challenge) ? "basic" : "keystone");
  return new Promise((resolve) => {
    const stop = loginWanted.subscribe((kind) => {
      if (kind !== null) return;
      queueMicrotask(() => stop());
      resolve(ask(method, path, options));
    });
  });
}

/** Rules that the caller passes for any node, by the number of the login. */
const rights: Map<number, Promise<string[] | null>> = new Map();

/**
 * Learn once for each login what need not be asked.
 * @param rule of the policy
 * @returns whether the caller passes it for all nodes; true if that is unknown
 */
export async function may(rule: string): Promise<boolean> {
  const turn = loginTurn;
  const reading =
    rights.get(turn) ??
    get("/v1/whoami").then(
      ({ body }) => body.rules,
      () => null,
    );
  rights.set(turn, reading);
  const rules = await reading;
  if (!rules) rights.delete(turn);
  return !rules || rules.includes(rule);
}

export const get = (path: string, abort?: AbortSignal) => ask("GET", path, { signal: abort });

/** A reading without an answer after this time is given up. */
const LONGEST_READING_MS = 60_000;

/**
 * A reading that is repeated, one at a time: an answer may take longer than the time between two
 * readings, so none is given up for the next one.
 * @param read handles its faults
 */
export function oneAtATime(read: (abort: AbortSignal) => Promise<unknown>) {
  const stopped = new AbortController();
  let busy = false;
  let late = false;
  const begin = async (): Promise<void> => {
    busy = true;
    late = false;
    await read(AbortSignal.any([stopped.signal, AbortSignal.timeout(LONGEST_READING_MS)]));
    busy = false;
    if (late && !stopped.signal.aborted) await begin();
  };
  return {
    /** Read, unless a reading is under way. */
    now: () => void (busy || begin()),
    /** Read what has changed: a reading that is under way may be older, so another one follows it. */
    again: () => {
      if (busy) late = true;
      else void begin();
    },
    stop: () => stopped.abort(),
  };
}

/**
 * Read a list page by page.
 * @param path with its query; "" reads nothing
 * @param key the name of the list in the answer
 */
export async function* pages(path: string, key: string, abort?: AbortSignal): AsyncGenerator<any[]> {
  let next: string | undefined = path || undefined;
  while (next) {
    const { body } = await get(next, abort);
    yield body[key];
    next = body.next && local(body.next);
  }
}

/**
 * @param fields of the nodes, beside their UUIDs
 * @returns nodes by their UUIDs, without those that are gone
 */
export async function readNodes(uuids: string[], fields: string, abort?: AbortSignal) {
  const nodes = new Map<string, any>();
  for (let at = 0; at < uuids.length; at += UUIDS_AT_ONCE) {
    const some = uuids.slice(at, at + UUIDS_AT_ONCE).join();
    for await (const page of pages(`/v1/nodes?uuid=${some}&fields=uuid,${fields}`, "nodes", abort))
      for (const node of page) nodes.set(node.uuid, node);
  }
  return nodes;
}

/**
 * @param address of the API
 * @returns its path and query, from `/v1`
 */
export function local(address: string): string {
  const { pathname, search } = new URL(address, ROOT);
  return pathname.slice(pathname.indexOf("/v1")) + search;
}

/** @returns a key that makes repeated requests one (Idempotency-Key) */
export function key(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

// -- Requests that change something: each with a key, and with the tag that the user saw.

const TRIES = 3;
const LOCK_WAIT = "respond-async, wait=10";

/**
 * Send a change. A lost answer is asked for again with the same key, so nothing happens twice; 503
 * waits as long as the service says.
 * @param goesOn throws after a pause if the change is not wanted any more
 */
export async function sendChange({
  method,
  path,
  body,
  tag,
  key: ownKey,
  onWait,
  goesOn,
}: {
  method: string;
  path: string;
  body?: unknown;
  tag?: string;
  key?: string;
  onWait?: (seconds: number, refusal: string) => void;
  goesOn?: () => void;
}): Promise<Answer> {
  const headers = { "Idempotency-Key": ownKey ?? key() } as Record<string, string>;
  if (tag) headers["If-Match"] = tag;
  for (let tried = 1; ; tried += 1) {
    try {
      return await ask(method, path, { headers, body });
    } catch (error) {
      const pause = error instanceof Fault ? pauseAfter(error) : null;
      if (pause === null || tried === TRIES) throw error;
      if (locked(error)) headers.Prefer = LOCK_WAIT;
      onWait?.(pause, (error as Fault).message);
      await sleep(pause * 1000);
      goesOn?.();
    }
  }
}

/** What the service takes for one request when its key comes again: not the version that it names. */
const sameness = ({ method, path, body }: Parameters<typeof sendChange>[0]) =>
  JSON.stringify([method, path, body]);

/**
 * @returns a function that sends changes: one of which no answer came has the same key the next time,
 *   which `keyOf` tells
 */
export function keeper() {
  const keys = new Map<string, string>();
  const send = async (change: Parameters<typeof sendChange>[0]): Promise<Answer> => {
    const text = sameness(change);
    const once = keys.get(text) ?? key();
    keys.set(text, once);
    try {
      const answer = await sendChange({ ...change, key: once });
      keys.delete(text);
      return answer;
    } catch (error) {
      if (answered(error as Fault)) keys.delete(text);
      throw error;
    }
  };
  const keyOf = (change: Parameters<typeof sendChange>[0]) => keys.get(sameness(change));
  return Object.assign(send, { keyOf });
}

/** @returns the same request may be answered a little later */
export const passing = ({ status }: Fault): boolean => !status || status >= 500;

/** @returns the service has answered, so the same key would only repeat its answer; a gateway has none */
export const answered = ({ status, request }: Fault): boolean =>
  !!status && (!!request || status < 502 || status > 504);

const locked = (error: unknown) => error instanceof Fault && error.status === 409 && error.retryAfter > 0;

/** @returns seconds until the next try; null: do not try again */
function pauseAfter(fault: Fault): number | null {
  return !fault.status || fault.status === 503 || locked(fault) ? fault.retryAfter || 1 : null;
}

/**
 * @param link the header Link of an answer
 * @returns the path of the run that follows
 */
export function monitor(link: string): string | null {
  const found = /<([^>]+)>\s*;\s*rel="?monitor"?/.exec(link);
  return found?.[1] ? local(found[1]) : null;
}

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
