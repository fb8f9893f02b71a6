/** Requests to the API of the same origin. One function sends all of them. */
import { VERSION } from "../facts.js";
import { signal } from "../vendor/signals.js";
import { heard } from "../state/clock.js";
import { fault, Fault } from "./faults.js";
import * as login from "./login.js";

/** True while the last request found no API. */
export const offline = signal(/** @type {Date | null} */ (null));
/** The API of a document below `/ui/`, without the version. */
export const ROOT = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** Answers of the API have this header; the login page of a proxy has not. */
const OURS = "X-OpenStack-Request-Id";
/** @type {RequestCredentials} */
let credentials = "omit";

/**
 * @typedef {object} Answer
 * @property {number} status
 * @property {any} body JSON, text, or null
 * @property {string} tag the ETag; "" without one
 * @property {string} request the request id
 * @property {string} link the header Link
 */

/**
 * Send one request and return the response as it comes.
 * @param {string} method
 * @param {string} path begins with `/v1`
 * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>}
 * @throws {Fault} for a network error
 */
export async function open(method, path, { body, headers, signal: abort } = {}) {
  const address = ROOT + path;
  try {
    const answer = await fetch(address, {
      method,
      cache: "no-store",
      redirect: "manual",
      referrerPolicy: "no-referrer",
      credentials,
      signal: abort ?? null,
      body: body === undefined ? null : JSON.stringify(body),
      headers: {
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        "X-OpenStack-Ironic-API-Version": VERSION,
        ...login.header(),
        ...headers,
      },
    });
    offline.value = null;
    heard(answer.headers.get("Date"));
    return answer;
  } catch (error) {
    if (abort?.aborted) throw error;
    offline.value ??= new Date();
    throw new Fault(`No answer from ${address}. Is the service up?`, { address });
  }
}

/**
 * Send a request and read its whole answer.
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal,
 *   accepts?: number[]}} [options] `accepts`: statuses beside 2xx that are no faults
 * @returns {Promise<Answer>}
 * @throws {Fault} for any other status
 */
export async function ask(method, path, options = {}) {
  const answer = await open(method, path, options);
  if (answer.type === "opaqueredirect" || foreign(answer)) return behindProxy(method, path, options);
  const text = await answer.text();
  if (answer.status === 401) return afterLogin(answer, method, path, options);
  if (!answer.ok && !options.accepts?.includes(answer.status)) {
    throw fault(answer, text, method + " " + path);
  }
  const json = answer.headers.get("Content-Type")?.includes("json");
  return {
    status: answer.status,
    body: json && text ? JSON.parse(text) : text || null,
    tag: answer.headers.get("ETag") ?? "",
    request: answer.headers.get(OURS) ?? "",
    link: answer.headers.get("Link") ?? "",
  };
}

/** @param {Response} answer @returns {boolean} true for the login page of a proxy */
function foreign(answer) {
  return !answer.headers.has(OURS) && !!answer.headers.get("Content-Type")?.includes("html");
}

/**
 * Send it again with the cookies of a proxy that has a login of its own; its expiry needs a reload.
 * @param {string} method @param {string} path @param {object} options
 * @returns {Promise<Answer>}
 */
function behindProxy(method, path, options) {
  if (credentials === "same-origin") {
    location.reload();
    return new Promise(() => {});
  }
  credentials = "same-origin";
  return ask(method, path, options);
}

/**
 * Ask for a login and send the request again when there is one.
 * @param {Response} answer @param {string} method @param {string} path @param {object} options
 * @returns {Promise<Answer>}
 */
function afterLogin(answer, method, path, options) {
  const challenge = answer.headers.get("WWW-Authenticate") ?? "";
  login.ask(/^basic/i.test(challenge) ? "basic" : "keystone");
  return new Promise((resolve) => {
    const stop = login.wanted.subscribe((kind) => {
      if (kind !== null) return;
      queueMicrotask(() => stop());
      resolve(ask(method, path, options));
    });
  });
}

/** @param {string} path @param {AbortSignal} [abort] */
export const get = (path, abort) => ask("GET", path, abort ? { signal: abort } : {});

/**
 * Read a list page by page.
 * @param {string} path with its query
 * @param {string} key the name of the list in the answer
 * @param {AbortSignal} [abort]
 * @returns {AsyncGenerator<any[]>}
 */
export async function* pages(path, key, abort) {
  let next = /** @type {string | undefined} */ (path);
  while (next) {
    const { body } = await get(next, abort);
    yield body[key];
    next = body.next && local(body.next);
  }
}

/** @param {string} address of the API @returns {string} its path and query, from `/v1` */
export function local(address) {
  const { pathname, search } = new URL(address, ROOT);
  return pathname.slice(pathname.indexOf("/v1")) + search;
}

/** @returns {string} a key that makes repeated requests one (Idempotency-Key) */
export function key() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
