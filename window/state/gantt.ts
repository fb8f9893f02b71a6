/** A run against the usual times of its steps: where its bars stand on an axis of time. */
import { type Json } from "../wire/json";

/** A part of the axis in percent. */
export interface Span {
  x: number;
  width: number;
}

export interface GanttRow {
  step: Json;
  /** seconds that the step has taken so far; null if it has not begun in this run */
  seconds: number | null;
  /** from its begin to its end or until now; of a pending step, when it is expected to run */
  bar: Span | null;
  /** the usual time, from the median to the 90th percentile, counted from the begin of the step */
  usual: Span | null;
  /** how many times the usual time the step has taken; null if it is not over */
  times: number | null;
}

export interface Gantt {
  rows: GanttRow[];
  /** round times on the axis, in milliseconds, and whether they need seconds to differ */
  ticks: { at: number; x: number }[];
  exact: boolean;
  /** null after the end of the run */
  now: number | null;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Distances between ticks. */
const TICKS = [
  ...[1, 2, 5, 10, 20, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 20, 30].map((count) => count * MINUTE),
  ...[1, 2, 4, 8, 12].map((count) => count * HOUR),
];
const MOST_TICKS = 4;
/** Room for what may come on the axis of a run under way, in milliseconds and as a part of what has passed. */
const LEAST_AXIS = 10 * SECOND;
const ROOM = 1.25;
/** Usual times do not make the axis of a run that has ended longer than this many times the run. */
const LONGEST_AXIS = 2;
/** A bar that can be seen, in percent. */
const LEAST_BAR = 0.5;
/** The 90th percentile of the shortest usual time, in seconds, to which a duration is compared. */
export const LEAST_USUAL = 1;
const OVER = 1.5;

const isOpen = (step: Json) => !step.ended_at && (step.state === "running" || step.state === "waiting");

/**
 * @param run with its steps
 * @param at the service's time in milliseconds
 */
export function ganttOf(run: Json, at: number): Gantt {
  const steps: Json[] = run.steps ?? [];
  const end = run.ended_at ? Date.parse(run.ended_at) : at;
  const start = Math.min(Date.parse(run.started_at), ...steps.filter(begun).map(startOf), end);
  const placed = placedSteps(steps, end, !run.ended_at);
  const usualEnds = placed.flatMap(({ usual }) => (usual ? usual[1] : []));
  const ends = placed.flatMap(({ bar }) => (bar ? bar[1] : []));
  const axis = run.ended_at
    ? Math.max(Math.min(Math.max(end, ...ends, ...usualEnds) - start, LONGEST_AXIS * (end - start)), SECOND)
    : Math.max(Math.max(...ends, ...usualEnds, end) - start, ROOM * (end - start), LEAST_AXIS);
  const apart = TICKS.find((size) => axis / size <= MOST_TICKS) ?? Math.ceil(axis / MOST_TICKS / DAY) * DAY;
  // The axis of a run under way grows by steps, so that its bars do not move each second.
  const whole = run.ended_at ? axis : Math.ceil(axis / apart) * apart;
  const x = (time: number) => Math.min(100, Math.max(0, Math.round((10_000 * (time - start)) / whole) / 100));
  const span = (times: [number, number] | null): Span | null => {
    if (!times || x(times[0]) >= 100) return null;
    const width = Math.max(LEAST_BAR, x(times[1]) - x(times[0]));
    return { x: Math.min(x(times[0]), 100 - width), width };
  };
  const first = Math.ceil(start / apart) * apart;
  const count = Math.floor((start + whole - first) / apart) + 1;
  return {
    rows: placed.map(({ step, seconds, bar, usual }) => ({
      step,
      seconds,
      bar: span(bar),
      usual: span(usual),
      times: timesOf(seconds, step.usual_seconds),
    })),
    ticks: Array.from({ length: count }, (_, tick) => first + tick * apart).map((time) => ({
      at: time,
      x: x(time),
    })),
    exact: apart < MINUTE,
    now: run.ended_at ? null : x(at),
  };
}

const begun = (step: Json): boolean => !!step.started_at && !step.done_in;
const startOf = (step: Json): number => Date.parse(step.started_at);

interface Placed {
  step: Json;
  seconds: number | null;
  bar: [number, number] | null;
  usual: [number, number] | null;
}

/**
 * @param end of the run, or now
 * @param goesOn pending steps come after the one under way, each for its median
 */
function placedSteps(steps: Json[], end: number, goesOn: boolean): Placed[] {
  /** When the next pending step is expected to begin; null: a step before has no usual time. */
  let next: number | null = goesOn ? end : null;
  return steps.map((step) => {
    const known = step.usual_seconds;
    if (begun(step)) {
      const from = startOf(step);
      const to = Math.max(from, step.ended_at ? Date.parse(step.ended_at) : end);
      if (isOpen(step) && next !== null) next = known ? Math.max(next, from + known.p50 * SECOND) : null;
      return {
        step,
        seconds: (to - from) / SECOND,
        bar: [from, to],
        usual: known ? [from + known.p50 * SECOND, from + known.p90 * SECOND] : null,
      };
    }
    const waits = step.state === "pending" && next !== null;
    const bar: [number, number] | null =
      waits && known ? [next as number, (next as number) + known.p50 * SECOND] : null;
    if (waits) next = bar && bar[1];
    return { step, seconds: null, bar, usual: null };
  });
}

function timesOf(seconds: number | null, usual: Json | null): number | null {
  if (seconds === null || !usual) return null;
  const times = seconds / Math.max(LEAST_USUAL, usual.p90);
  return times >= OVER ? Math.round(times) : null;
}

/** Durations of the steps of one run beside those of others; null: not run there, or kept from an earlier run. */
export interface Comparison {
  name: string;
  seconds: (number | null)[];
  /** whether the step has failed, by run */
  failed: boolean[];
}

/**
 * @param runs the first has the steps that are compared
 * @param nameOf a step
 */
export function comparisonOf(runs: Json[], nameOf: (step: Json) => string): Comparison[] {
  const byName = runs.map((run) => {
    const found = new Map<string, Json>();
    for (const step of run.steps ?? []) found.set(unique(found, nameOf(step)), step);
    return found;
  });
  return [...(byName[0]?.keys() ?? [])].map((key) => {
    const steps = byName.map((found) => found.get(key));
    return {
      name: nameOf(steps[0] as Json),
      seconds: steps.map((step) => (step && begun(step) ? step.duration_seconds : null)),
      failed: steps.map((step) => step?.state === "failed"),
    };
  });
}

/** A list may have a step more than once: the second of one run is that of another. */
function unique(found: Map<string, unknown>, name: string): string {
  let key = name;
  for (let at = 2; found.has(key); at += 1) key = `${name} ${at}`;
  return key;
}
