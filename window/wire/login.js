/**
 * The login of this browser session. It lives in this closure: not in the document, in storage, in
 * an address or in a log. Tabs share it by a channel, and eight hours without a key or a press clear
 * it: a page that nobody looks at goes on asking, which is no use of it.
 */
import { signal } from "../vendor/signals.js";

const IDLE_MS = 8 * 3600 * 1000;
const loginChannel = new BroadcastChannel("ironic-lite-login");

/** @typedef {{name: string, value: string, user: string}} Credential */
/** @type {Credential | null} */
let held = null;
let usedAt = 0;
/** Tabs tell each other at most this often that somebody is there. */
const USED_MS = 60 * 1000;
/** Number of the login that is held. */
export let loginTurn = 0;

/** The kind of login that the service has asked for; null while none is wanted. */
export const loginWanted = signal(/** @type {"basic" | "keystone" | null} */ (null));
/** Name of the user who is logged in; "" without a login. */
export const loginUser = signal("");

/** @returns {Record<string, string>} the header of the login; empty without one */
export function loginHeader() {
  if (ended()) logOut();
  return held ? { [held.name]: held.value } : {};
}

const ended = () => held && Date.now() - usedAt > IDLE_MS;

/**
 * @param {Credential | null} next
 * @param {number} at the time of the last press, of all tabs
 */
function hold(next, at) {
  if (next?.value !== held?.value) loginTurn++;
  held = next;
  usedAt = at;
  loginUser.value = next ? next.user : "";
  if (next) loginWanted.value = null;
}

/**
 * Hold a user name and a password for HTTP Basic (RFC 7617), in UTF-8.
 * @param {string} name
 * @param {string} password
 */
export function logInBasic(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  const value = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  share({ name: "Authorization", value, user: name });
}

/** @param {string} token a token of Keystone */
export function logInToken(token) {
  share({ name: "X-Auth-Token", value: token.trim(), user: "token" });
}

/** @param {Credential | null} next */
function share(next) {
  hold(next, Date.now());
  loginChannel.postMessage({ kind: "login", held, usedAt });
}

/** Forget the login in all tabs. */
export function logOut() {
  share(null);
}

/** Forget the login, and what was read with it, in all tabs: the next user may see less. */
export function leaveAll() {
  logOut();
  loginChannel.postMessage({ kind: "out" });
  location.reload();
}

/** @param {"basic" | "keystone"} kind what a 401 asks for */
export function askLogin(kind) {
  loginWanted.value = kind;
}

/** Somebody is there. */
function used() {
  if (Date.now() - usedAt < USED_MS) return;
  if (ended()) return logOut();
  usedAt = Date.now();
  loginChannel.postMessage({ kind: "used" });
}
addEventListener("keydown", used, true);
addEventListener("pointerdown", used, true);

loginChannel.onmessage = ({ data }) => {
  if (data.kind === "login") return hold(data.held, data.usedAt);
  if (data.kind === "out") return location.reload();
  if (ended()) return logOut();
  if (data.kind === "used") usedAt = Date.now();
  if (data.kind === "who" && held) loginChannel.postMessage({ kind: "login", held, usedAt });
};
loginChannel.postMessage({ kind: "who" });
