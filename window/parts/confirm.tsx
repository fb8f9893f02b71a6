/** What an act asks of the user before its button works, and the end of what it began. */
import { useState } from "preact/hooks";
import { STATES } from "../facts";
import { type Act, enter, move, type Stage } from "../state/acts";
import { outcome } from "../state/batches";
import { href } from "../state/route";
import { get, sleep } from "../wire/api";
import { type Json } from "../wire/json";
import { typed } from "./fields";
import { bdi } from "./text";
import { say } from "./toasts";
import { causeOf, erases, ERASING, HALF, wording } from "./words";

/**
 * What a plan asks of the user before the button works: `name`, `unknown` (the name, too, because the
 * effects are not known), or `none`, which leaves the button as the one confirmation.
 * @param node an erased one has no data to lose, but volumes
 */
export function confirmation(plan: Json, node: Json | null) {
  const all = new Set([plan, ...plan.steps].flatMap((part) => part.destroys ?? ["unknown"]));
  if (node?.data_state === "clean") all.delete("data");
  if (all.has("data") || all.has("volumes")) return "name";
  return all.has("unknown") ? "unknown" : "none";
}

/** Requests that end what the instance of an active node does. */
const INTERRUPTS = ["power off", "rebooting", "soft power off", "soft rebooting", "rescue"];

/** @returns what a request asks that may end what an instance does */
export const confirmationOfUse = (target: string, state: string): "name" | "none" =>
  state === "active" && INTERRUPTS.includes(target) ? "name" : "none";

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
 * Read a document until its act has ended.
 * @param stageOf returns where the act stands
 */
async function follow(from: string, id: number, stageOf: (body: Json) => Partial<Act> & { stage: Stage }) {
  let last = "";
  for (let pause = 1000; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 1.2)) {
    await sleep(pause);
    if (document.hidden) continue; // A tab that nobody sees asks nothing.
    const { body, status } = await get(from).catch((fault) => fault);
    if (status === 403 || status === 404)
      return move(id, { stage: "unknown", text: "Its end cannot be read." });
    if (!body) continue;
    const now = stageOf(body);
    const text = JSON.stringify(now);
    if (text !== last) move(id, now);
    last = text;
    if (now.stage !== "running") return now;
  }
}

/** @returns where a run or a batch stands */
function stageOfRun(body: Json): { stage: Stage; text: string } {
  const end = outcome(body);
  if (!body.ended_at) return { stage: "running", text: body.state === "paused" ? end : "" };
  const done = end === "done";
  return { stage: done ? "done" : "failed", text: wording(causeOf(body) ?? (done ? "" : end)) };
}

/** The power states that orders end in; a restart begins and ends in the same one. */
const ENDS: Record<string, string> = {
  "power on": "power on",
  "power off": "power off",
  "soft power off": "power off",
};

/**
 * The service forgets the last error when an order begins, but for a node in a fail state.
 * @param before the `last_error` of the node before
 * @param target of the power
 * @returns where an order of a node stands that is no run, such as power
 */
export const stageOfOrder =
  (before: unknown, target = "") =>
  (node: Json): { stage: Stage; text: string } => {
    const { reservation, target_power_state, last_error, power_state, provision_state: state } = node;
    if (reservation || target_power_state) return { stage: "running", text: "" };
    const kept = state === "error" || STATES[state] === "fail";
    if (last_error && !(kept && last_error === before)) return { stage: "failed", text: last_error };
    const end = ENDS[target];
    if (end ? power_state === end : !last_error) return { stage: "done", text: "" };
    const text = end ? `The power state is ${power_state ?? "not known"}.` : "The node has an older error.";
    return { stage: "unknown", text };
  };

/**
 * Enter an act that goes on in the service, and follow it to its end.
 * @param own path of its run or its batch; null: it is an order of a node
 * @param props `about`: path of the node or the batch; `before`: the `last_error` of the node before;
 *   `target`: of its power
 */
export async function began(
  title: string,
  own: string | null,
  {
    about,
    says = `${title} is accepted.`,
    before,
    target,
  }: { about: string; says?: string; before?: unknown; target?: string | undefined },
) {
  const id = enter(title, "accepted", { about, to: href(own ?? about) });
  say(says, { about });
  const end = await follow(own ?? about, id, own ? stageOfRun : stageOfOrder(before, target));
  // For screen readers: on the screen the entry has moved.
  if (end) say(`${title}: ${end.stage}. ${end.text}`, { about, seen: true });
}

/** What is typed to confirm a batch. */
export const NUMBER = "number of nodes";

/**
 * What a batch asks of the user: the API plans no steps of many nodes, so a verb that may erase disks
 * counts as one that does.
 * @param used whether some nodes may have an instance
 * @param clean it has one node, whose data are erased
 */
export function confirmationOf(target: string, used: boolean, clean = false): "name" | "none" {
  if (erases(target) || target === "available") return clean ? "none" : "name";
  return confirmationOfUse(target, used ? "active" : "");
}
