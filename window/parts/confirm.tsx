/** What an act asks of the user before its button works, and the end of what it began. */
import { useState } from "preact/hooks";
import { outcome } from "../state/batches";
import { href } from "../state/route";
import { get, sleep } from "../wire/api";
import { type Json } from "../wire/json";
import { Checkbox, typed } from "./fields";
import { bdi } from "./text";
import { aboutOf, hush, say } from "./toasts";
import { causeOf, erases, ERASING, HALF, wording } from "./words";

/**
 * What a plan asks of the user before the button works: `name`, `unknown` (the name, too, because the
 * effects are not known), `tick` or `none`.
 * @param state of the node
 */
export function confirmation(plan: Json, state: string) {
  const all = new Set([plan, ...plan.steps].flatMap((part) => part.destroys ?? ["unknown"]));
  if (all.has("data") || all.has("volumes")) return "name";
  if (all.has("unknown")) return "unknown";
  if (all.size || (plan.restarts && state === "active")) return "tick";
  return "none";
}

/** @param props `name` is what has to be typed */
export function Confirm({
  kind,
  name,
  onSure,
  what = "name of the node",
  on = name,
  does = "may destroy the data on",
}: {
  kind: string | null;
  name: string;
  onSure: (sure: boolean) => void;
  what?: string;
  on?: string;
  does?: string;
}) {
  const [text, setText] = useState("");
  if (kind === "none") return null;
  const effect = kind === "unknown" ? "has effects that are not known on" : does;
  if (kind === "tick") return <Checkbox label="I have read what changes." onChange={onSure} />;
  const onInput = typed((value) => {
    setText(value);
    onSure(value === name);
  });
  return (
    <label class="block danger">
      This {effect} {bdi(on)}. Type the {what}:
      <input autocomplete="off" spellcheck={false} value={text} onInput={onInput} />
    </label>
  );
}

/**
 * What an abort leaves behind.
 * @param step that it ends at once
 */
export const halfErased = (step: string) =>
  ERASING.test(step) && (
    <p class="wrong">
      {bdi(step)} is under way. {HALF}
    </p>
  );

const LONGEST_PAUSE_MS = 10_000;

/**
 * Tell the end of a run or a batch that was begun here, and where to look unless it is shown.
 * @param own its path
 */
export async function tellEnd(own: string, title: string) {
  const about = aboutOf(own);
  let told = "";
  for (let pause = 1000; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 1.2)) {
    await sleep(pause);
    if (document.hidden) continue; // A tab that nobody sees asks nothing.
    const { body, status } = await get(own).catch((fault) => fault);
    if (status === 403 || status === 404) return;
    const now = body?.ended_at || body?.state === "paused" ? outcome(body) : "";
    if (!body || now === told) continue;
    told = now;
    // A batch that goes on is no longer paused.
    if (!now) hush((toast) => toast.about === about);
    else say(`${title}: ${now}. ${wording(causeOf(body))}`, { to: href(own), about, failed: now !== "done" });
    if (body.ended_at) return;
  }
}

/** What is typed to confirm a batch. */
export const NUMBER = "number of nodes";

/**
 * What a batch asks of the user: the API plans no steps of many nodes, so a verb that may erase disks
 * counts as one that does; anything else but power on may interrupt an instance, an abort an erase.
 * @param used whether some nodes may have an instance
 */
export function confirmationOf(target: string, used: boolean): "name" | "tick" | "none" {
  if (erases(target) || target === "available") return "name";
  return target === "abort" || (used && target !== "power on") ? "tick" : "none";
}
