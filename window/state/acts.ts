/** What the user has done with this page: each act is one entry, which moves on until its end. */
import { signal } from "@preact/signals";
import { timeNow } from "./clock";

/** `unknown`: it has ended, and nobody can read how. */
export type Stage = "accepted" | "running" | "done" | "failed" | "undone" | "unknown";

export interface Act {
  id: number;
  title: string;
  stage: Stage;
  /** when it reached the stage */
  at: string;
  /** the path of the node or the batch */
  about?: string | undefined;
  /** the page that shows it */
  to?: string | undefined;
  /** more about the stage, such as the cause of a failure */
  text?: string;
  undo?: (() => void) | undefined;
}

/** Acts that are kept. */
const MOST = 50;

/** The newest is the first. */
export const acts = signal<Act[]>([]);
let last = 0;

/** @returns the number of the new entry */
export function enter(title: string, stage: Stage, more: Partial<Act> = {}): number {
  last += 1;
  acts.value = [{ ...more, id: last, title, stage, at: timeNow() }, ...acts.value].slice(0, MOST);
  return last;
}

/** @param change `undo` of undefined takes Undo away */
export function move(id: number, change: Partial<Act>) {
  acts.value = acts.value.map((act) =>
    act.id === id ? { ...act, ...change, ...(change.stage && { at: timeNow() }) } : act,
  );
}

const underWay = ({ stage }: Act) => stage === "accepted" || stage === "running";

/** Forget the acts that have ended. */
export const clearEnded = () => (acts.value = acts.value.filter(underWay));

/**
 * @returns how many are under way, have failed, or ended as nobody knows: `2 running, 1 failed`; else
 *   `3 done`
 */
export function summary(all: Act[]): string {
  const running = all.filter(underWay).length;
  const failed = all.filter(({ stage }) => stage === "failed").length;
  const unknown = all.filter(({ stage }) => stage === "unknown").length;
  const rest = running || failed || unknown ? 0 : all.length;
  return [
    running && `${running} running`,
    failed && `${failed} failed`,
    unknown && `${unknown} unknown`,
    rest && `${rest} done`,
  ]
    .filter(Boolean)
    .join(", ");
}
