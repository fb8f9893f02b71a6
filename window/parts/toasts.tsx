/** Sentences about the results of own acts, and buttons that copy a request as curl, or another text. */
import { signal } from "@preact/signals";
import { curl, sleep } from "../wire/api";
import { loginUser } from "../wire/login";

/** Sentences for the live region: results of own acts. */
export const toasts = signal<Toast[]>([]);
/** `to`: the page that shows it */
export type Toast = { text: string; to: string };

const SHOWN_MS = 8000;
const MOST_SAID = 4;
const COPY_MS = 1000;
let until = 0;

/** Tell the result of an own act for some seconds; with an address, until it is followed or closed. */
export function say(text: string, to: string = "") {
  toasts.value = [...toasts.value.filter((toast) => toast.to), { text, to }].slice(-MOST_SAID);
  clearTimeout(until);
  until = setTimeout(() => hush((toast) => !toast.to), SHOWN_MS);
}

/** @param which are no longer shown */
export const hush = (which: (toast: Toast) => boolean) =>
  (toasts.value = toasts.value.filter((toast) => !which(toast)));

/** Copy a text; one that the browser does not let the page copy is shown until it is closed. */
export async function copy(text: string) {
  // Without TLS and by address there is no `navigator.clipboard`; elsewhere it may be forbidden, or
  // wait for an answer of the user.
  const written = navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );
  const copied = (await Promise.race([written, sleep(COPY_MS)])) || copyBySelection(text);
  if (copied) say("Copied.");
  else say(`The browser forbids this page to copy. Copy it yourself: ${text}`, location.hash);
}

function copyBySelection(text: string) {
  const focused = document.activeElement as HTMLElement | null;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return copied;
}

export function Curl({
  method = "GET",
  path,
  body,
  headers,
  stream,
  each,
  label = "curl",
}: {
  method?: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  stream?: boolean;
  each?: string[];
  label?: string;
}) {
  void loginUser.value; // The text has the way to log in.
  const text = curl(method, path, { body, headers, stream, each } as any);
  return (
    <button
      type="button"
      class="quiet curl"
      title={text}
      aria-label={`Copy as curl: ${method} ${path}`}
      onClick={() => copy(text)}
    >
      <span aria-hidden="true">{">"}_</span> {label}
    </button>
  );
}
