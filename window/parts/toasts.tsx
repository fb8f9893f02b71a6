/** Sentences about the results of own acts, and buttons that copy a request as curl, or another text. */
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { enter, move } from "../state/acts";
import { href } from "../state/route";
import { Fault, get, sendChange, sleep } from "../wire/api";
import { curl } from "../wire/curl";
import { type Json } from "../wire/json";
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
  about?: string | undefined;
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
  const seen = more.seen || (!!about && about === showing && !more.undo);
  const toast = { text, ...more, ...(seen && { seen, to: "" }) };
  const others = toasts.value.filter((other) => other.to && !(about && other.about === about));
  toasts.value = [...others, toast].slice(-MOST_SAID);
  clearTimeout(until);
  until = setTimeout(() => hush((toast) => !toast.to), SHOWN_MS);
}

const UNDO_MS = 5000;

export type Change = Parameters<typeof sendChange>[0];

/**
 * An act that was done.
 * @param more `inverse`: for some seconds Undo sends it, if the node or the batch has not changed
 *   meanwhile; `tag`: its version after the act; null: the inverse is of something that only this act
 *   has made; `after`: how it reads after the act if nothing else has changed it
 */
export type Done = {
  about?: string | undefined;
  inverse?: Change | null | undefined;
  tag?: string | null;
  after?: Json | null;
  reload?: (() => void) | undefined;
};

/** Fields that differ in each version. */
export const MOVING = /_at$|^(links|reservation)$/;

/** @returns the fields that another version has otherwise; lists of names, such as traits, have no order */
export function differing(seen: Json, now: Json): string[] {
  const text = (value: unknown) => JSON.stringify((Array.isArray(value) ? [...value].sort() : value) || "");
  return Object.keys(now).filter(
    (name) => name in seen && !MOVING.test(name) && text(seen[name]) !== text(now[name]),
  );
}

/** @returns the version that reads like `after`; "" if the act is not the last change */
const versionOf = (about: string, after: Json | null | undefined) =>
  after
    ? get(about).then(
        ({ body, tag }) => (differing(after, body).length ? "" : tag),
        () => "",
      )
    : "";

/** Enter an act that is done, tell it, and offer Undo if it has an inverse. */
export async function done(title: string, says: string, { inverse, tag, after, ...more }: Done) {
  const { about } = more;
  const id = enter(title, "done", { about, to: about && href(about) });
  if (!inverse || !about) return say(says, { about });
  const version = tag === undefined ? await versionOf(about, after) : tag;
  // Without a version nobody knows whether something has changed since.
  if (version === "") return say(says, { about });
  offerUndo(id, says, more, () => sendChange({ ...inverse, ...(version && { tag: version }) }));
}

/**
 * @param then how a document read, or a part of it
 * @returns its version
 * @throws Fault if it reads otherwise now
 */
export async function sameAs(from: string, then: Json): Promise<string> {
  const { body, tag } = await get(from);
  if (differing(then, body).length) throw new Fault("", { status: 412 });
  return tag;
}

/**
 * Tell an act, and offer Undo for some seconds.
 * @param id its entry
 * @param back takes it back, or throws why it does not
 */
export function offerUndo(
  id: number,
  says: string,
  {
    about,
    reload,
    ...more
  }: { about?: string | undefined; reload?: (() => void) | undefined; failed?: boolean },
  back: () => Promise<unknown>,
) {
  const end = () => {
    clearTimeout(timer);
    move(id, { undo: undefined });
    hush((toast) => toast.undo === undo);
  };
  const undo = async () => {
    end();
    try {
      await back();
      move(id, { stage: "undone" });
      say("Undone.", { about });
    } catch (error) {
      const { status, message } = error as Fault;
      const text = status === 412 ? "It has changed meanwhile." : message;
      move(id, { text: `Not undone: ${text}` });
      say(`Not undone: ${text}`, { about, failed: true });
    }
    reload?.();
  };
  const timer = setTimeout(end, UNDO_MS);
  move(id, { undo });
  say(says, { about, undo, ...more });
}

/** Changes whose answers have not come. */
const sending: Set<string> = new Set();

/**
 * Send a change that has an inverse at once, for the version that stands now; a second press while it
 * is sent has no effect.
 * @param props `about`: what it changes, or `of`: a part of that; `shown`: what it must still be; `inverse`: of the node as it
 *   was before, null if it is not known; `gives`: the fields that it changes, of the node before
 */
export async function sendAtOnce({
  title,
  says,
  change,
  of,
  shown = {},
  inverse,
  gives,
  ...more
}: Omit<Done, "inverse" | "after"> & {
  title: string;
  says: string;
  about: string;
  of?: string;
  change: Change;
  shown?: Json;
  inverse: (before: Json) => Change | null;
  gives?: (before: Json) => Json;
}) {
  const once = JSON.stringify([change.method, change.path]);
  if (sending.has(once)) return;
  sending.add(once);
  try {
    const seen = change.tag ? { body: {}, tag: change.tag } : await get(of ?? more.about);
    if (differing(seen.body, shown).length) throw new Error("It has changed meanwhile. Nothing is sent.");
    const answer = await sendChange({ ...change, tag: seen.tag });
    more.reload?.();
    await done(title, says, {
      ...more,
      inverse: inverse(seen.body),
      after: gives ? { ...seen.body, ...gives(seen.body) } : null,
      ...(answer.tag && { tag: answer.tag }),
    });
  } catch (fault) {
    const { about } = more;
    const text = (fault as Error).message;
    enter(title, "failed", { about, to: href(about), text });
    say(text, { about, failed: true });
    more.reload?.();
  } finally {
    sending.delete(once);
  }
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
      return await sendAtOnce({
        title: `Pause of ${body.name ?? "a batch"}`,
        says: "The batch is paused.",
        about: own,
        change: { ...change("pause"), tag },
        inverse: () => change("resume"),
        reload,
      });
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

/** A document that the page shows; `label`: instead of its path. */
type Shown = { path: string; stream?: boolean; label?: string };

/** For the menu of the bar, which copies them. */
export const documents = signal<Shown[]>([]);

/** Puts a document that the page shows into the menu that copies requests as curl. */
export function MenuCurl({ path, stream = false, label = "" }: Shown) {
  useEffect(() => {
    const own = { path, stream, label };
    documents.value = [...documents.peek(), own];
    return () => {
      documents.value = documents.peek().filter((other) => other !== own);
    };
  }, [path, stream, label]);
  return null;
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
