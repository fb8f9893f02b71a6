/** The address: a path of the API with arguments, and those of the view. */
import { signal } from "@preact/signals";

export interface Route {
  /** begins with `/v1` */
  path: string;
  /** the path after `/v1`, decoded */
  parts: string[];
  /** arguments of the API */
  query: URLSearchParams;
  /** arguments of the view, without `~` */
  view: Record<string, string>;
}

const HOME = "/v1/nodes";

function readFragment(fragment: string): Route {
  // Any other fragment is the first page.
  const [path = "", search = ""] = (/^#(\/v1\/.*)/s.exec(fragment)?.[1] ?? HOME).split(/\?(.*)/s);
  const query = new URLSearchParams();
  const view: Record<string, string> = history.state ? { sel: history.state } : {};
  for (const [name, value] of new URLSearchParams(search)) {
    if (name.startsWith("~")) view[name.slice(1)] = value;
    else query.append(name, value);
  }
  const parts = path.split("/").slice(2).filter(Boolean).map(decoded);
  return { path, parts, query, view };
}

/** @returns a text as it is if it is not encoded */
export function decoded(part: string) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(readFragment(location.hash));
addEventListener("popstate", () => (route.value = readFragment(location.hash)));

/** A longer argument of the view, such as more than 150 selected nodes, is not put into an address. */
const LONGEST_ARGUMENT = 5550;

/** @returns `/v1/...` with each part encoded */
export function path(...parts: string[]): string {
  return ["/v1", ...parts.map(encodeURIComponent)].join("/");
}

/**
 * @param target a path
 * @returns a fragment
 */
export function href(
  target: string,
  query: URLSearchParams | Record<string, string> = {},
  view: Record<string, string> = {},
): string {
  const all = new URLSearchParams(query);
  for (const [name, value] of Object.entries(view)) {
    if (value && value.length < LONGEST_ARGUMENT) all.append(`~${name}`, value);
  }
  const text = all.toString().replaceAll("%7E", "~");
  return `#${target}${text ? `?${text}` : ""}`;
}

/**
 * @param defaults arguments
 * @returns the path and the query that the page shows
 */
export function request(defaults: Record<string, string> = {}): string {
  const { path: target, query } = route.value;
  const more = Object.entries(defaults).filter(([name]) => !query.has(name));
  return href(target, new URLSearchParams([...query, ...more])).slice(1);
}

/**
 * @param options `replace`: no entry to go back to; `sel`: selected nodes, which the browser keeps
 *   with the entry
 */
export function go(fragment: string, { replace, sel }: { replace?: boolean; sel?: string | undefined } = {}) {
  history[replace ? "replaceState" : "pushState"](sel, "", fragment);
  route.value = readFragment(fragment);
}

/**
 * Change arguments of the present address; an empty value removes one.
 * @param change keys of the view begin with `~`
 */
export function changeRoute(change: Record<string, string>, options?: { replace?: boolean }) {
  const { path: target, query, view } = route.value;
  const nextQuery = new URLSearchParams(query);
  const nextView = { ...view };
  for (const [name, value] of Object.entries(change)) {
    if (name.startsWith("~")) nextView[name.slice(1)] = value;
    else if (value) nextQuery.set(name, value);
    else nextQuery.delete(name);
  }
  go(href(target, nextQuery, nextView), { ...options, sel: nextView.sel });
}

/** @returns the fragment of a view, without the nodes that are selected in it */
export function addressOf({ path: target, query, view }: Route): string {
  const { sel: _, ...rest } = view;
  return href(target, query, rest);
}
