// Requests to the API, which is beside the window: /ui/ and /v1.
import { VERSION } from "../facts.js";

const HEADERS = { "X-OpenStack-Ironic-API-Version": VERSION };

/**
 * Read one document.
 * @param {string} path path below /v1 with its query, such as "/nodes?limit=5"
 * @returns {Promise<any>} the JSON of the answer
 */
export async function read(path) {
  const answer = await fetch(`../v1${path}`, {
    cache: "no-store",
    credentials: "omit",
    redirect: "manual",
    referrerPolicy: "no-referrer",
    headers: HEADERS,
  });
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.text()).slice(0, 500)}`);
  return answer.json();
}
