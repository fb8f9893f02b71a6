/** Requests that change something: each with a key, and with the tag that the user saw. */
import { ask, key, local } from "./api.js";
import { Fault } from "./faults.js";
import { sleep } from "./feed.js";

const TRIES = 3;
const LOCK_WAIT = "respond-async, wait=10";

/**
 * Send a change. A lost answer is asked for again with the same key, so nothing happens twice; 503
 * waits as long as the service says.
 * @param {{method: string, path: string, body?: unknown, tag?: string, key?: string,
 *   onWait?: (seconds: number) => void}} request
 * @returns {Promise<import("./api.js").Answer>}
 */
export async function change({ method, path, body, tag, key: given, onWait }) {
  const headers = /** @type {Record<string, string>} */ ({ "Idempotency-Key": given ?? key() });
  if (tag) headers["If-Match"] = tag;
  for (let tried = 1; ; tried += 1) {
    try {
      return await ask(method, path, { headers, ...(body === undefined ? {} : { body }) });
    } catch (error) {
      const pause = error instanceof Fault ? pauseAfter(error) : null;
      if (pause === null || tried === TRIES) throw error;
      if (locked(error)) headers.Prefer = LOCK_WAIT;
      onWait?.(pause);
      await sleep(pause * 1000);
    }
  }
}

/** @param {unknown} error */
const locked = (error) =>
  error instanceof Fault && error.status === 409 && error.retryAfter > 0;

/** @param {Fault} fault @returns {number | null} seconds until the next try; null: do not try again */
function pauseAfter(fault) {
  if (fault.status === 0) return 1;
  if (fault.status === 503 || locked(fault)) return fault.retryAfter || 1;
  return null;
}

/**
 * @param {string} link the header Link of an answer
 * @returns {string | null} the path of the run that follows
 */
export function monitor(link) {
  const found = /<([^>]+)>\s*;\s*rel="?monitor"?/.exec(link);
  return found?.[1] ? local(found[1]) : null;
}
