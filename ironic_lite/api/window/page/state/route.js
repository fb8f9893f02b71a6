/** The address of the page: the fragment is the path of the API. Keys with `~` are the view's. */
import { signal } from "../vendor/signals.js";

/**
 * @typedef {object} Route
 * @property {string} path begins with `/v1`
 * @property {string[]} parts the path after `/v1`, decoded
 * @property {URLSearchParams} query arguments of the API
 * @property {Record<string, string>} view arguments of the view, without `~`
 */

const HOME = "/v1/nodes";

/** @param {string} fragment @returns {Route} */
export function read(fragment) {
  const [path = "", search = ""] = split(fragment.replace(/^#/, "") || HOME);
  const query = new URLSearchParams();
  /** @type {Record<string, string>} */
  const view = {};
  for (const [name, value] of new URLSearchParams(search)) {
    if (name.startsWith("~")) view[name.slice(1)] = value;
    else query.append(name, value);
  }
  const parts = path.split("/").slice(2).filter(Boolean).map(decoded);
  return { path: path.startsWith("/v1/") ? path : HOME, parts, query, view };
}

/** @param {string} text @returns {[string, string]} */
function split(text) {
  const at = text.indexOf("?");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(read(location.hash));
addEventListener("hashchange", () => {
  route.value = read(location.hash);
});

/** @param {string[]} parts @returns {string} `/v1/...` with each part encoded */
export function path(...parts) {
  return ["/v1", ...parts.map(encodeURIComponent)].join("/");
}

/**
 * @param {string} target a path
 * @param {URLSearchParams | Record<string, string>} [query]
 * @param {Record<string, string>} [view]
 * @returns {string} a fragment
 */
export function href(target, query = {}, view = {}) {
  const all = new URLSearchParams(query);
  for (const [name, value] of Object.entries(view)) if (value) all.append(`~${name}`, value);
  const text = all.toString().replaceAll("%7E", "~");
  return `#${target}${text ? `?${text}` : ""}`;
}

/** @param {string} fragment @param {{replace?: boolean}} [options] `replace`: no entry to go back to */
export function go(fragment, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", fragment);
  else history.pushState(null, "", fragment);
  route.value = read(fragment);
}

/**
 * Change arguments of the present address; an empty value removes one.
 * @param {Record<string, string>} change keys of the view begin with `~`
 * @param {{replace?: boolean}} [options]
 */
export function change(change, options) {
  const { path: target, query, view } = route.value;
  const nextQuery = new URLSearchParams(query);
  const nextView = { ...view };
  for (const [name, value] of Object.entries(change)) {
    if (name.startsWith("~")) nextView[name.slice(1)] = value;
    else if (value) nextQuery.set(name, value);
    else nextQuery.delete(name);
  }
  go(href(target, nextQuery, nextView), options);
}
