/** Requests as curl commands for a POSIX shell. No command contains a secret. */
import { SECRET_KEY } from "../facts.js";
import { ROOT } from "./api.js";
import * as login from "./login.js";

const secret = new RegExp(SECRET_KEY, "i");

/** @param {string} text @returns {string} one word of a POSIX shell */
export function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * Return JSON in one line, quoted for the shell; the value of a secret key is a variable.
 * @param {unknown} body
 */
export function json(body) {
  /** @type {string[]} */
  const names = [];
  const text = JSON.stringify(body, (name, value) => {
    if (typeof value !== "string" || !value || !secret.test(name)) return value;
    names.push(name.toUpperCase().replace(/[^A-Z0-9]/g, "_"));
    return `\u0001${names.length - 1}\u0001`;
  });
  return quoted(text).replaceAll(/\\u0001(\d+)\\u0001/g, (_, at) => `'"$${names[at]}"'`);
}

function authorization() {
  const [name] = Object.keys(login.header());
  if (name === "Authorization") return ['-u "$USER"'];
  return name ? ['-H "X-Auth-Token: $OS_TOKEN"'] : [];
}

/**
 * @param {string} method
 * @param {string} path begins with `/v1`
 * @param {{body?: unknown, headers?: Record<string, string>, stream?: boolean,
 *   version?: string}} [options]
 * @returns {string} two lines: the address of the API, and the command
 */
export function curl(method, path, { body, headers = {}, stream = false, version } = {}) {
  const words = ["curl", stream ? "-sN" : "-sS", ...authorization()];
  if (method !== "GET") words.push("-X", method);
  const all = { ...(version ? { "X-OpenStack-Ironic-API-Version": version } : {}), ...headers };
  if (body !== undefined) all["Content-Type"] = "application/json";
  for (const [name, value] of Object.entries(all)) words.push("-H", quoted(`${name}: ${value}`));
  words.push(`"$api"${quoted(path)}`);
  if (body !== undefined) words.push("-d", json(body));
  return `api=${quoted(ROOT)}\n${words.join(" ")}`;
}
