/** Sentences about the results of own acts, and buttons that copy a request as curl, or another text. */
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { get, sendChange, sleep } from "../wire/api";
import { curl } from "../wire/curl";
import { loginUser } from "../wire/login";

/** Sentences for the live region: results of own acts. */
export const toasts = signal<Toast[]>([]);
/**
 * `to`: the page that shows it; `about`: the path of the node or the batch; `seen`: it is for screen
 * readers alone
 */
export type Toast = {
  text: string;
  to?: string;
  about?: string;
  failed?: boolean;
  seen?: boolean;
  undo?: () => void;
};

/** The path of the node or the batch that the page shows. */
let showing = "";

/** Take messages about what the page shows off the screen, and put no further ones there. */
export function useShown(about: string) {
  useLayoutEffect(() => {
    showing = about;
    hush((toast) => !!toast.to && toast.about === about);
    toasts.value = toasts.value.map((toast) => ({
      ...toast,
      seen: !!about && toast.about === about && !toast.undo,
    }));
    return () => {
      showing = "";
    };
  }, [about]);
}

/** @returns the path of the node or the batch that a path below it is about */
export const aboutOf = (own: string) => own.split("/").slice(0, 4).join("/");

const SHOWN_MS = 8000;
const MOST_SAID = 4;
const COPY_MS = 1000;
let until = 0;

/**
 * Tell the result of an own act for some seconds; with an address, until it is followed or closed, or
 * something else is told about the same.
 */
export function say(text: string, more: Omit<Toast, "text"> = {}) {
  const { about } = more;
  const seen = !!about && about === showing && !more.undo;
  const toast = { text, ...more, ...(seen && { seen, to: "" }) };
  const others = toasts.value.filter((other) => other.to && !(about && other.about === about));
  toasts.value = [...others, toast].slice(-MOST_SAID);
  clearTimeout(until);
  until = setTimeout(() => hush((toast) => !toast.to), SHOWN_MS);
}

const UNDO_MS = 5000;

/**
 * Send a change that has an inverse at once. For some seconds Undo sends the inverse, if nothing else
 * has changed meanwhile.
 */
export async function sendAtOnce(
  text: string,
  about: string,
  change: Parameters<typeof sendChange>[0],
  inverse: Parameters<typeof sendChange>[0],
  reload?: () => void,
) {
  const send = async (request: typeof change, done: string, undo?: (tag: string) => void) => {
    try {
      const { tag } = await sendChange(request);
      say(done, { about, ...(undo && { undo: () => undo(tag) }) });
    } catch (fault) {
      say((fault as Error).message, { about, failed: true });
    }
    reload?.();
  };
  await send(change, text, (tag) => void send({ ...inverse, tag }, "Undone."));
  const mine = toasts.value.find((toast) => toast.undo && toast.about === about);
  setTimeout(() => hush((toast) => toast === mine), UNDO_MS);
}

/**
 * Pause a batch that is running. Undo would also resume a batch that another user or the service has
 * paused, so the version is read first, and the pause is bound to it.
 * @param own path of the batch
 */
export async function pauseBatch(own: string, reload?: () => void) {
  const change = (target: string) => ({ method: "PUT", path: `${own}/state`, body: { target } });
  try {
    const { body, tag } = await get(own);
    if (body.state === "running") {
      return await sendAtOnce(
        "The batch is paused.",
        own,
        { ...change("pause"), tag },
        change("resume"),
        reload,
      );
    }
    say(`The batch is ${body.state} already.`, { about: own });
  } catch (fault) {
    say((fault as Error).message, { about: own, failed: true });
  }
  reload?.();
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
  else say(`The browser forbids this page to copy. Copy it yourself: ${text}`, { to: location.hash });
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
