/**
 * The login of this browser session. It lives in this closure: not in the document, in storage, in an
 * address or in a log. Tabs share it by a channel, and eight hours without a key or a press clear it:
 * a page that nobody looks at goes on asking, which is no use of it.
 */
import { signal } from "@preact/signals";
import { ROOT } from "./away";

const IDLE_MS = 8 * 3600 * 1000;
const loginChannel = new BroadcastChannel("ironic-lite-login");

/** `user`: whose it is, "" if that is not known; `label`: the name that is shown */
export type Credential = { name: string; value: string; user: string; label: string };
let held: Credential | null = null;
let usedAt = 0;
/** Tabs tell each other at most this often that somebody is there. */
const USED_MS = 60 * 1000;
/** The user whose documents the page shows. */
let shownTo = "";
/** A login does not wait longer than this for the name of its user. */
const LONGEST_MS = 10_000;
/** Number of the login that is held. */
export let loginTurn = 0;

/** The kind of login that the service has asked for; null while none is wanted. */
export const loginWanted = signal(null as "basic" | "keystone" | null);
/** Name of the user who is logged in; "" without a login. */
export const loginUser = signal("");

/** @returns the header of the login; empty without one */
export function loginHeader(): Record<string, string> {
  if (ended()) logOut();
  return held ? { [held.name]: held.value } : {};
}

const ended = () => held && Date.now() - usedAt > IDLE_MS;

/** @param at the time of the last press, of all tabs */
function hold(next: Credential | null, at: number) {
  if (next?.value !== held?.value) loginTurn++;
  held = next;
  usedAt = at;
  loginUser.value = next ? next.label : "";
  // Another user may see less than the page shows; it asks for the login once more.
  if (next?.user && shownTo && next.user !== shownTo) return location.reload();
  shownTo ||= next?.user ?? "";
  if (next) loginWanted.value = null;
}

/** Hold a user name and a password for HTTP Basic (RFC 7617), in UTF-8. */
export function logInBasic(name: string, password: string) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  const value = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  share({ name: "Authorization", value, user: name, label: name });
}

/** @param token a token of Keystone: only the service knows whose it is */
export async function logInToken(token: string) {
  const [name, value] = ["X-Auth-Token", token.trim()];
  const unknown = () => ({ user: "", name: "token" });
  const { user, name: label } = await fetch(`${ROOT}/v1/whoami`, {
    headers: { [name]: value },
    cache: "no-store",
    redirect: "manual",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(LONGEST_MS),
  })
    .then((answer) => (answer.ok ? answer.json() : unknown()))
    .catch(unknown);
  share({ name, value, user, label });
}

function share(next: Credential | null) {
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

/** @param kind what a 401 asks for */
export function askLogin(kind: "basic" | "keystone") {
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
