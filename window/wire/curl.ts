/** Requests as curl commands for a POSIX shell, and what is secret in them. No command contains a secret. */
import { SECRET_KEY, URL_LOGIN } from "../facts";
import { ROOT } from "./away";
import { loginHeader } from "./login";

/** Stands for a secret, in answers of the API as on the page. */
export const MASK = "******";

/** Names of fields whose values are secrets. */
export const secret = new RegExp(SECRET_KEY, "i");
/** Further ones, by their place. */
const SECRET_PLACE = /\/configdrive$|^\/instance_info\/image_url$/;

/**
 * A JSON value without its secrets, and without the passwords of its URLs, as the API masks them.
 * @param at its JSON pointer
 * @param put returns what stands for the secret of this name
 */
export function withoutSecrets(value: any, at: string, put: (name: string) => string): any {
  if (value === null || value === undefined || value === "") return value;
  const name = at.replace(/.*\//, "");
  if (secret.test(at) || SECRET_PLACE.test(at)) return put(name);
  if (typeof value === "string")
    return value.replace(new RegExp(URL_LOGIN, "g"), (_, user) => `${user}:${put(`${name}_password`)}`);
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, at, put));
  if (typeof value !== "object") return value;
  // The value of a patch or of a setting is what their path or name says.
  const own = value.path ?? value.name;
  const hide = ([key, held]: [string, unknown]) => [
    key,
    withoutSecrets(held, key === "value" && typeof own === "string" ? own : `${at}/${key}`, put),
  ];
  return Object.fromEntries(Object.entries(value).map(hide));
}

/** @returns one word of a POSIX shell */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Return JSON in one line, quoted for the shell; a secret is a variable. */
export function json(body: unknown) {
  const names: string[] = [];
  const put = (name: string) => {
    const variable = name.toUpperCase().replace(/[^A-Z0-9]/g, "_");
    names.push(names.includes(variable) ? `${variable}_${names.length + 1}` : variable);
    return `\u0001${names.length - 1}\u0001`;
  };
  return quoted(JSON.stringify(withoutSecrets(body, "", put))).replaceAll(
    /\\u0001(\d+)\\u0001/g,
    (_, at) => `'"$${names[at]}"'`,
  );
}

function authorization() {
  const [name] = Object.keys(loginHeader());
  if (name === "Authorization") return ['-u "$USER"'];
  return name ? ['-H "X-Auth-Token: $OS_TOKEN"'] : [];
}

/**
 * @param path begins with `/v1`
 * @param options `file`: where the answer goes; `each`: UUIDs that stand for `{node}` in the path, one
 *   after the other
 * @returns two lines: the address of the API, and the command
 */
export function curl(
  method: string,
  path: string,
  {
    body,
    headers = {},
    stream = false,
    file,
    each,
  }: {
    body?: unknown;
    headers?: Record<string, string>;
    stream?: boolean;
    file?: string;
    each?: string[];
  } = {},
): string {
  const words = ["curl", stream ? "-sN" : "-sS", ...authorization()];
  if (file) words.push("-fo", file);
  if (/[?&]wait=/.test(path)) words.push("--retry", "5");
  if (method !== "GET") words.push("-X", method);
  const all = { ...headers };
  if (body !== undefined) all["Content-Type"] = "application/json";
  for (const [name, value] of Object.entries(all)) words.push("-H", quoted(`${name}: ${value}`));
  words.push(`"$api"${quoted(path).replace("{node}", `'"$node"'`)}`);
  if (body !== undefined) words.push("-d", json(body));
  const command = words.join(" ");
  return `api=${quoted(ROOT)}\n${each ? `for node in ${each.join(" ")}; do ${command}; done` : command}`;
}
