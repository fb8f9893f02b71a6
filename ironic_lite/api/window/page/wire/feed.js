/** The feed of events: a stream of lines, or long polls, or polls, whichever the way allows. */
import { signal } from "../vendor/signals.js";
import { get, open } from "./api.js";
import { Fault } from "./faults.js";

/** How events come: `stream`, `wait` (long polls), `poll`, `off` (no connection). */
export const mode = signal(/** @type {"stream" | "wait" | "poll" | "off"} */ ("off"));
/** When something last came from the feed, in milliseconds of `performance.now`. */
export const heardAt = signal(0);

const FIRST_LINE_MS = 5000;
const SILENCE_MS = 20000;
const WAIT_SECONDS = 15;
const POLL_MS = 5000;
const SHORTEST_MS = 500;
const LONGEST_MS = 30000;
const FAR_BEHIND = 10000;

/** @typedef {{cursor: string, node: string | null, name: string | null, kind: string,
 *   event: string, before: string | null, after: string | null, at: string,
 *   run: string | null, data: any}} Event */

/** Follows the feed until it is stopped. */
export class Feed {
  /**
   * @param {string} cursor where to begin
   * @param {(events: Event[]) => void} onEvents
   * @param {() => void} onGap some events may be missing: read everything again
   * @param {Record<string, string>} [filter]
   */
  constructor(cursor, onEvents, onGap, filter = {}) {
    this.cursor = cursor;
    this.onEvents = onEvents;
    this.onGap = onGap;
    this.filter = filter;
    this.way = /** @type {"stream" | "wait" | "poll"} */ ("stream");
    this.pause = SHORTEST_MS;
    this.abort = new AbortController();
    void this.run();
  }

  stop() {
    this.abort.abort();
    mode.value = "off";
  }

  async run() {
    while (!this.abort.signal.aborted) {
      try {
        await (this.way === "stream" ? this.stream() : this.page());
        this.pause = SHORTEST_MS;
      } catch (error) {
        if (this.abort.signal.aborted) return;
        await this.failed(error);
      }
    }
  }

  /** @param {unknown} error */
  async failed(error) {
    const fault = error instanceof Fault ? error : null;
    if (error instanceof Silent) {
      this.way = this.way === "stream" ? "wait" : "poll";
      return;
    }
    if (this.way === "wait" && fault?.status === 504) this.way = "poll";
    mode.value = "off";
    const asked = (fault?.retryAfter ?? 0) * 1000;
    await sleep(Math.max(asked, this.pause * (0.5 + Math.random())));
    this.pause = Math.min(LONGEST_MS, this.pause * 2);
  }

  /** @param {Record<string, string>} more */
  path(more) {
    return `/v1/events?${new URLSearchParams({ since: this.cursor, ...this.filter, ...more })}`;
  }

  async stream() {
    const connection = new AbortController();
    const stop = () => connection.abort();
    this.abort.signal.addEventListener("abort", stop);
    let timer = setTimeout(stop, FIRST_LINE_MS);
    let began = false;
    try {
      const answer = await open("GET", this.path({ follow: "true" }), { signal: connection.signal });
      if (!answer.ok || !answer.body) {
        const after = Number(answer.headers.get("Retry-After") ?? 0);
        throw new Fault("no stream", { status: answer.status, retryAfter: after });
      }
      for await (const lines of linesOf(answer.body)) {
        clearTimeout(timer);
        timer = setTimeout(stop, SILENCE_MS);
        began = true;
        mode.value = "stream";
        this.take(lines.map((line) => JSON.parse(line)));
      }
    } catch (error) {
      if (!began && connection.signal.aborted && !this.abort.signal.aborted) throw new Silent();
      throw error;
    } finally {
      clearTimeout(timer);
      this.abort.signal.removeEventListener("abort", stop);
      connection.abort();
    }
  }

  async page() {
    const waits = this.way === "wait" ? { wait: String(WAIT_SECONDS) } : { limit: "1000" };
    const { body } = await get(this.path(/** @type {any} */ (waits)), this.abort.signal);
    mode.value = this.way;
    if (body.trimmed) this.onGap();
    this.take([...body.events, { cursor: body.cursor }]);
    if (this.way === "poll") await sleep(POLL_MS);
  }

  /** @param {any[]} lines events and bookmarks, in order */
  take(lines) {
    heardAt.value = performance.now();
    const events = lines.filter((line) => line.kind);
    const last = lines.at(-1);
    if (last) this.cursor = last.cursor;
    if (lines.some((line) => line.trimmed) || events.length > FAR_BEHIND) this.onGap();
    else if (events.length) this.onEvents(events);
  }
}

/** A proxy keeps the answer back: no line came in time. */
class Silent extends Error {}

/** @param {number} ms */
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<string[]>} whole lines, as many as came at once
 */
export async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    if (lines.length) yield lines.filter(Boolean);
  }
}
