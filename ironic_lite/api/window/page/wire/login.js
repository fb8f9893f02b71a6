/**
 * The login of this browser session. It lives in this closure: not in the document, in storage, in
 * an address or in a log. Tabs share it by a channel, and eight idle hours clear it.
 */
import { signal } from "../vendor/signals.js";

const IDLE_MS = 8 * 3600 * 1000;
const channel = new BroadcastChannel("ironic-lite-login");

/** @typedef {{name: string, value: string, user: string}} Credential */
/** @type {Credential | null} */
let held = null;
let usedAt = 0;

/** The kind of login that the service has asked for; null while none is wanted. */
export const wanted = signal(/** @type {"basic" | "keystone" | null} */ (null));
/** Name of the user who is logged in; "" without a login. */
export const user = signal("");

/** @returns {Record<string, string>} the header of the login; empty without one */
export function header() {
  if (held && Date.now() - usedAt > IDLE_MS) clear();
  if (!held) return {};
  usedAt = Date.now();
  return { [held.name]: held.value };
}

/** @param {Credential | null} next */
function hold(next) {
  held = next;
  usedAt = Date.now();
  user.value = next ? next.user : "";
  if (next) wanted.value = null;
}

/**
 * Hold a user name and a password for HTTP Basic (RFC 7617), in UTF-8.
 * @param {string} name
 * @param {string} password
 */
export function basic(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  const value = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  share({ name: "Authorization", value, user: name });
}

/** @param {string} token a token of Keystone */
export function keystone(token) {
  share({ name: "X-Auth-Token", value: token.trim(), user: "token" });
}

/** @param {Credential | null} next */
function share(next) {
  hold(next);
  channel.postMessage({ kind: "login", held: next });
}

/** Forget the login in all tabs. */
export function clear() {
  share(null);
}

/** @returns {boolean} true while a login is held */
export function present() {
  return held !== null;
}

/** @param {"basic" | "keystone"} kind what a 401 asks for */
export function ask(kind) {
  wanted.value = kind;
}

channel.onmessage = ({ data }) => {
  if (data.kind === "login") hold(data.held);
  if (data.kind === "who" && held) channel.postMessage({ kind: "login", held });
};
channel.postMessage({ kind: "who" });
