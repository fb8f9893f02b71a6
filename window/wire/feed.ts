/** The feed of events: a stream that tabs share, or polls; and whether the service has a new page. */
import { signal } from "@preact/signals";
import { fault, Fault, get, may, open, passing, sleep } from "./api";
import { answered, answers, hear, untilBack } from "./away";
import { type Answers } from "./documents";

/** True once the service serves other files than those of this page. */
export const newer = signal(false);
/** The hash of all files, as addresses and the ETag of the document have it. */
const [, HASH = ""] = /\/a\/([^/]+)\//.exec(import.meta.url) ?? [];

/** Look after each loss of the connection: an upgrade restarts the service. */
export async function look() {
  try {
    const answer = await fetch(new URL("./", document.baseURI), { method: "HEAD", cache: "no-store" });
    const tag = answer.headers.get("ETag");
    if (answer.ok && tag) newer.value = !tag.includes(HASH);
  } catch {
    // The next connection looks again.
  }
}

// -- Streams of all tabs of this browser. It has six connections for an origin, so all tabs together
// keep a few streams, and the others poll.

const MOST_STREAMS = 4;

/**
 * Take a stream if the browser has one left.
 * @param onLost ends the stream: the tabs have found that they have too many
 * @returns gives the stream back; null: the other tabs have them all
 */
export async function takeStream(onLost: () => void): Promise<(() => void) | null> {
  if (!navigator.locks) return claimStream(onLost);
  for (let at = 0; at < MOST_STREAMS; at += 1) {
    const release = await takeLock(`ironic-lite-stream-${at}`);
    if (release) return release;
  }
  return null;
}

const takeLock = (name: string): Promise<(() => void) | null> =>
  new Promise((resolve) => {
    const hold = (lock: Lock | null) =>
      lock ? new Promise((release) => resolve(() => release(null))) : resolve(null);
    navigator.locks.request(name, { ifAvailable: true }, hold).catch(() => resolve(null));
  });

// Plain HTTP by address has no locks: there the tabs tell each other how many streams they have.

const ANSWER_MS = 80;
const me = Math.random();
let claims = 0;
/** How to end each stream of this tab. */
const taken: Set<() => void> = new Set();
/** What the other tabs say of themselves. */
const others: Map<number, { streams: number; claims: number }> = new Map();
const streamChannel = new BroadcastChannel("ironic-lite-streams");

streamChannel.onmessage = ({ data }) => {
  if (data.kind === "ask") tell();
  else {
    others.set(data.me, data);
    endSurplus();
  }
};
addEventListener("pagehide", () => {
  taken.clear();
  claims = 0;
  tell();
});

const tell = () => streamChannel.postMessage({ kind: "have", me, streams: taken.size, claims });

/**
 * End streams beyond the limit: a busy tab answered too late to one that claimed a stream. The tabs
 * with smaller numbers keep theirs.
 */
function endSurplus() {
  let before = 0;
  for (const [other, has] of others) if (other < me) before += has.streams;
  const surplus = Math.min(taken.size, before + taken.size - MOST_STREAMS);
  for (const end of [...taken].slice(0, Math.max(0, surplus))) {
    taken.delete(end);
    end();
  }
  if (surplus > 0) tell();
}

/** @returns as `takeStream` */
async function claimStream(onLost: () => void): Promise<(() => void) | null> {
  claims += 1;
  others.clear();
  tell();
  streamChannel.postMessage({ kind: "ask" });
  await sleep(ANSWER_MS);
  let busy = taken.size;
  // Of tabs that claim at the same time, those with smaller numbers go first.
  for (const [other, has] of others) busy += has.streams + (other < me ? has.claims : 0);
  claims -= 1;
  const end = () => onLost(); // Another one for each claim.
  const free = busy < MOST_STREAMS;
  if (free) taken.add(end);
  tell();
  if (!free) return null;
  return () => {
    taken.delete(end);
    tell();
  };
}

// -- The feed of events: a stream of lines, or long polls, or polls, whichever the way allows.

/**
 * How events come: `stream`, `wait` (long polls), `poll`, `again` (the caller does not see those of
 * all nodes, so everything is read again), `off` (no connection), `none` (no feed).
 */
export const mode = signal("none" as Mode);
export type Mode = "stream" | "wait" | "poll" | "again" | "off" | "none";
/** How each feed of this page reads; the page shows the best of them. */
const modes: Map<Feed, Mode> = new Map();

/** @param found without one, the feed has ended */
function reads(feed: Feed, found?: Mode) {
  if (found) modes.set(feed, found);
  else modes.delete(feed);
  const all = new Set(modes.values());
  const best = (["stream", "wait", "poll", "again"] as const).find((way) => all.has(way));
  mode.value = best ?? (all.size ? "off" : "none");
}

/** When something last came from the feed, in milliseconds of `performance.now`. */
export const heardAt = signal(0);

const FIRST_LINE_MS = 5000;
const SILENCE_MS = 20000;
const WAIT_SECONDS = 15;
export const POLL_MS = 5000;
const ALL_AGAIN_MS = 10000;
const SHORTEST_MS = 500;
const LONGEST_MS = 30000;
const FAR_BEHIND = 10000;
/** A hidden tab gives its stream back after this time, and goes on where it was when it is seen. */
const HIDDEN_MS = 10000;

export type FeedEvent = Answers["/v1/events"]["events"][number];

/** Follows the feed until it is stopped. */
export class Feed {
  private way: "stream" | "wait" | "poll" = "stream";
  private pause = SHORTEST_MS;
  private lost = false;
  private readonly abort = new AbortController();
  private rest = new AbortController();
  private hiding = 0;
  private readonly onHide = () => this.hide();

  /**
   * @param cursor where to begin
   * @param onGap some events may be missing: read everything again
   * @param only nothing but events is shown, so those of the caller's own nodes are enough
   */
  constructor(
    private cursor: string,
    private readonly onEvents: (events: FeedEvent[]) => void,
    private readonly onGap: () => unknown,
    private readonly filter: Record<string, string> = {},
    private readonly only = false,
  ) {
    document.addEventListener("visibilitychange", this.onHide);
    void this.run();
  }

  stop() {
    this.abort.abort();
    this.rest.abort();
    clearTimeout(this.hiding);
    document.removeEventListener("visibilitychange", this.onHide);
    reads(this);
  }

  hide() {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(() => this.rest.abort(), HIDDEN_MS);
  }

  async run() {
    while (!this.abort.signal.aborted) {
      try {
        if (this.rest.signal.aborted) await this.seen();
        if (this.abort.signal.aborted) return;
        await this.more();
        this.pause = SHORTEST_MS;
      } catch (error) {
        if (this.abort.signal.aborted) return;
        if (!this.rest.signal.aborted) await this.failed(error);
      }
    }
  }

  /** Wait until the tab is visible. */
  async seen() {
    while (document.hidden && !this.abort.signal.aborted) {
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    }
    this.rest = new AbortController();
  }

  /** Read events in the way that is known to work, or by polls if other tabs have all streams. */
  async more() {
    if (this.way === "poll") return this.page("poll");
    if (this.way === "stream" && !this.only && !(await may("baremetal:event:list_all"))) return this.again();
    const { rest } = this;
    const release = await takeStream(() => rest.abort()); // `run` tries again, and polls then.
    if (!release) return this.page("poll");
    try {
      await (this.way === "stream" ? this.stream() : this.page("wait"));
    } finally {
      release();
    }
  }

  async again() {
    if (!this.abort.signal.aborted) reads(this, "again");
    await sleep(ALL_AGAIN_MS);
    // All of it is read before the next time, however long that takes.
    if (!this.abort.signal.aborted) await this.onGap();
  }

  async failed(error: unknown) {
    const found = error instanceof Fault ? error : null;
    if (error instanceof Silent && (await answers(answered.value ?? new Date()))) {
      this.way = this.way === "stream" ? "wait" : "poll";
      return;
    }
    if (this.way === "wait" && found?.status === 504) this.way = "poll";
    reads(this, "off");
    this.lost = true;
    const retryMs = (found?.retryAfter ?? 0) * 1000;
    await untilBack(Math.max(retryMs, this.pause * (0.5 + Math.random())));
    this.pause = Math.min(LONGEST_MS, this.pause * 2);
  }

  path(more: Record<string, string>) {
    return `/v1/events?${new URLSearchParams({ ...this.filter, since: this.cursor, ...more })}`;
  }

  async stream() {
    const connection = new AbortController();
    const stop = () => connection.abort();
    const ends = AbortSignal.any([this.abort.signal, this.rest.signal]);
    if (ends.aborted) return;
    ends.addEventListener("abort", stop);
    let timer = setTimeout(stop, FIRST_LINE_MS);
    let began = false;
    const at = performance.now();
    try {
      const answer = await open("GET", this.path({ follow: "true" }), { signal: connection.signal });
      if (answer.status === 401) {
        reads(this, "off");
        return void (await get(this.path({ limit: "1" }), ends)); // It asks for the login.
      }
      if (!answer.ok || !answer.body) throw fault(answer, "", "");
      for await (const lines of linesOf(answer.body)) {
        clearTimeout(timer);
        timer = setTimeout(stop, SILENCE_MS);
        began = true;
        this.pause = SHORTEST_MS;
        if (!this.abort.signal.aborted) reads(this, "stream");
        this.take(lines.map((line) => JSON.parse(line)));
      }
      // The service ended it, perhaps for an upgrade.
      this.lost = true;
      if (performance.now() - at < SHORTEST_MS) throw new Fault("no stream");
    } catch (error) {
      if (connection.signal.aborted && !ends.aborted) {
        if (!began) throw new Silent();
        void answers(answered.value ?? new Date());
      }
      throw error;
    } finally {
      clearTimeout(timer);
      ends.removeEventListener("abort", stop);
      connection.abort();
    }
  }

  async page(way: "wait" | "poll") {
    const waits = way === "wait" ? { wait: String(WAIT_SECONDS) } : { limit: "1000" };
    const ends = AbortSignal.any([this.abort.signal, this.rest.signal]);
    const { body } = await get(this.path(waits as any), ends);
    reads(this, way);
    if (body.trimmed) this.onGap();
    this.take([...body.events, { cursor: body.cursor }]);
    if (way === "poll") await sleep(POLL_MS);
  }

  /** @param lines events and bookmarks, in order */
  take(lines: any[]) {
    if (this.lost) void look();
    this.lost = false;
    heardAt.value = performance.now();
    hear();
    const events = lines.filter((line) => line.kind);
    const last = lines.at(-1);
    if (last) this.cursor = last.cursor;
    if (lines.some((line) => line.trimmed) || events.length > FAR_BEHIND) this.onGap();
    else if (events.length) this.onEvents(events);
  }
}

/**
 * Follow events from the cursor of a first answer on.
 * @param from the path of the first answer
 * @returns stops the feed
 */
export function followFrom(
  from: string,
  begin: (body: any) => Pick<Feed, "stop">,
  onFault?: (fault: Fault) => void,
): () => void {
  const abort = new AbortController();
  let stop = () => abort.abort();
  const start = () =>
    void get(from, abort.signal).then(
      ({ body }) => {
        if (abort.signal.aborted) return;
        const feed = begin(body);
        stop = () => feed.stop();
      },
      (fault) => {
        if (abort.signal.aborted) return;
        onFault?.(fault);
        if (passing(fault)) setTimeout(start, POLL_MS);
      },
    );
  start();
  return () => stop();
}

/** A proxy keeps the answer back: no line came in time. */
class Silent extends Error {}

/** @returns whole lines, as many as came at once */
export async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string[]> {
  const reader = body.pipeThrough(new TextDecoderStream() as any).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    if (lines.length) yield lines.filter(Boolean);
  }
}
