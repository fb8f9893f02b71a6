/** Whether the service answers: a probe decides after a lost, slow or missing answer. */
import { signal } from "@preact/signals";
import { stand } from "../state/clock";

/** The API of a document below `/ui/`, without the version. */
export const ROOT = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** Answers of the API have this header; the login page of a proxy has not. */
export const OURS = "X-OpenStack-Request-Id";

/** Since when the service does not answer; null while it does. */
export const offline = signal(null as Date | null);
/** When it answered last. */
export const answered = signal(null as Date | null);
offline.subscribe((lost) => {
  stand(!!lost);
  if (lost) void askAgain();
});

const PROBE_MS = 5000;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15_000;
let probing: Promise<boolean> | null = null;
let waiting = new AbortController();

/** @returns what ends reads that wait for an answer when the service is found to be away */
export const reading = () => waiting.signal;

export function hear() {
  answered.value = new Date();
  offline.value = null;
}

/**
 * Ask for the smallest document; without an answer, ask again until there is one.
 * @param since when the service may have gone
 */
export function answers(since: Date): Promise<boolean> {
  probing ??= probe(since).finally(() => (probing = null));
  return probing;
}

async function probe(since: Date): Promise<boolean> {
  const options = { cache: "no-store", redirect: "manual" } as const;
  const found = await fetch(`${ROOT}/v1`, { ...options, signal: AbortSignal.timeout(PROBE_MS) }).catch(
    () => null,
  );
  if (found && !ofGateway(found)) {
    hear();
    return true;
  }
  offline.value ??= since;
  waiting.abort();
  waiting = new AbortController();
  return false;
}

/** Ask again and again, the more seldom the longer the service is away. */
async function askAgain() {
  for (let pause = FIRST_PAUSE_MS; offline.value; pause = Math.min(LONGEST_PAUSE_MS, pause * 1.5)) {
    await untilBack(pause * (0.5 + Math.random()));
    if (offline.value && !document.hidden) await answers(offline.value);
  }
}

/** Wait, but no longer than until a service that was away answers. */
export const untilBack = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    let away = false;
    const end = () => {
      clearTimeout(timer);
      queueMicrotask(() => stop());
      resolve();
    };
    const timer = setTimeout(end, ms);
    const stop = offline.subscribe((lost) => {
      if (away && !lost) end();
      away = !!lost;
    });
  });

/** A proxy answers for a service that does not. */
export const ofGateway = ({ status, headers }: Response) =>
  status >= 502 && status <= 504 && !headers.has(OURS);
