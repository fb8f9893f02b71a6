/** Batches that are not over, by their nodes. */
import { signal } from "@preact/signals";
import { may, pages } from "../wire/api";
import { type Json } from "../wire/json";
import { path } from "./route";

/** Each open batch is a request of its own. */
const APART_MS = 10_000;
const NOT_ENDED = "result=pending,starting,running&fields=uuid&limit=1000";

/** Open batches by the UUIDs of the nodes that have not ended in them. */
export const openBatches = signal(new Map<string, Json>());

let timer = 0;
let readAt = -Infinity;

/** Read them, at once or a little after the last time. */
export function readOpenBatches() {
  timer ||= setTimeout(() => void read(), Math.max(0, readAt + APART_MS - performance.now()));
}

async function read() {
  timer = 0;
  readAt = performance.now();
  if (!(await may("baremetal:batch:list"))) return;
  const found = new Map<string, Json>();
  try {
    for await (const page of pages("/v1/batches?state=running,paused&fields=uuid,name", "batches")) {
      for (const batch of page) {
        const list = `${path("batches", batch.uuid)}/nodes?${NOT_ENDED}`;
        for await (const nodes of pages(list, "nodes")) for (const { uuid } of nodes) found.set(uuid, batch);
      }
    }
  } catch {
    return; // What was read stays until the next event.
  }
  openBatches.value = found;
}

/** States of a batch in which no further node starts. */
export const ENDED = ["done", "aborted"];

/** Failures and refusals of a batch. */
export const failuresOf = ({ counts }: Json): number => counts.failed + counts.refused;

/** @returns its state, and how many nodes have failed in a batch that is done */
export const outcome = (batch: Json): string =>
  batch.state === "done" && batch.counts && failuresOf(batch)
    ? `done with ${failuresOf(batch)} failed`
    : batch.state;

/** @returns why a batch is paused, "" if nobody is known */
export function pauseOf({ paused_by: by }: Json): string {
  if (by === "failures") return "after failures";
  if (by === "end of a wave") return "at the end of a wave";
  return !by || by === "anonymous" ? "" : `by ${by}`;
}

/** @returns how many failures the limit leaves: none also of a batch with more than it allows */
export function budgetOf({ max_failures: most, failures_left: left }: Json): string {
  return most ? `${left} of ${most} ${most === 1 ? "failure" : "failures"} left` : "no failure allowed";
}
