/** The log of a run: followed at its end, searched, filtered by source. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { absolute, clockTime, dayOf } from "../state/clock";
import { changeRoute, href, route } from "../state/route";
import { prefs } from "../state/settings";
import { fault, Fault, open, passing, sleep } from "../wire/api";
import { linesOf, POLL_MS, takeStream } from "../wire/feed";
import { typed } from "./fields";
import { wrong } from "./read";
import { MenuCurl } from "./toasts";
import { many, visible } from "./words";

const MOST_LINES = 20000;

const LINE = /^(\S+) (\S+)\s+(.*)$/;

const FAILURE = /^\S+ failed/;
/** The line of a failure comes with the end of its step. */
const SOON_MS = 2000;

/** @param props `path` of the run */
export function Log({ path, live }: { path: string; live: boolean }) {
  const [lines, fault] = useLines(`${path}/log`, live);
  const [source, setSource] = useState("");
  const [words, setWords] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(true);
  const sources = useMemo(() => [...new Set(lines.map((line) => line.source))], [lines]);
  const visibleLines = lines.filter((line) => !source || line.source === source);
  const hit = (line: Line) => words && line.text.toLowerCase().includes(words);
  const hits = visibleLines.filter(hit);
  const { line: named } = route.value.view;
  // A number, or the time at which a step has failed: the line that says so, else the first from then on.
  const from = visibleLines.filter((line) =>
    Number(named) ? line.number === Number(named) : named && line.at >= named,
  );
  const soon = Number(new Date(named ?? "")) + SOON_MS;
  const chosen = from.find((line) => FAILURE.test(line.text) && Date.parse(line.at) < soon) ?? from[0];
  const at = chosen ? chosen.number : 0;
  const pick = (line: Line | undefined) =>
    line && changeRoute({ "~line": String(line.number) }, { replace: true });
  const next = () => pick(hits.find((line) => line.number > at) ?? hits[0]);
  const before = () => pick(hits.findLast((line) => line.number < at) ?? hits.at(-1));
  useEffect(() => {
    if (!at) return;
    setFollowing(false);
    document.getElementById(`line-${at}`)?.scrollIntoView({ block: "center" });
  }, [at]);
  const seen = useRef(0);
  if (following) seen.current = lines.length;
  const unseen = lines.length - seen.current;
  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, following]);
  const onScroll = () => {
    const at = box.current;
    if (at) setFollowing(at.scrollTop + at.clientHeight > at.scrollHeight - 20);
  };
  return (
    <>
      <div class="filters">
        <input
          type="search"
          aria-label="Search the log"
          placeholder="/ search"
          onInput={typed((value) => setWords(value.toLowerCase()))}
          onKeyDown={(event: KeyboardEvent) => event.key === "Enter" && next()}
        />
        {words && (
          <>
            <span>{many(hits.length, "line")}</span>
            <button data-key="N" title="N" onClick={before}>
              Previous
            </button>
            <button data-key="n" title="n" onClick={next}>
              Next
            </button>
          </>
        )}
        {sources.map((name) => (
          <button aria-pressed={source === name} onClick={() => setSource(source === name ? "" : name)}>
            {visible(name)}
          </button>
        ))}
        <MenuCurl path={`${path}/log`} stream={live} />
        {!following && (
          <button onClick={() => setFollowing(true)}>
            {unseen > 0 ? many(unseen, "new line") : "To the end"}
          </button>
        )}
      </div>
      <div class="log" ref={box} onScroll={onScroll} tabindex={0} role="log" aria-label="Log of the run">
        {visibleLines.map((line, at) => (
          <>
            {isNewDay(line, visibleLines[at - 1]) && <p class="small">{dayOf(line.at, prefs.value.utc)}</p>}
            <div
              class={hit(line) ? "hit" : ""}
              id={`line-${line.number}`}
              aria-current={line === chosen ? "true" : undefined}
            >
              <a href={href(`${path}/log`, {}, { line: String(line.number) })}>
                <time title={absolute(line.at, true)}>{clockTime(line.at, prefs.value.utc, true)}</time>
              </a>{" "}
              <span class="source">{visible(line.source)}</span> {visible(line.text)}
            </div>
          </>
        ))}
        {!lines.length && !fault && <p>No line yet.</p>}
      </div>
      {wrong(fault, `${path}/log`)}
    </>
  );
}

/** Local days, or those of UTC, without the cost of a format for each line. */
function isNewDay({ at }: Line, before: Line | undefined): boolean {
  const day = (text: string) => (prefs.value.utc ? text.slice(0, 10) : new Date(text).toDateString());
  return !isNaN(Date.parse(at)) && (!before || day(before.at) !== day(at));
}

/** `number` in the log, from 1 */
export type Line = { number: number; at: string; source: string; text: string };

/** @param live lines as they come, and why they do not */
function useLines(path: string, live: boolean) {
  const [lines, setLines] = useState([] as Line[]);
  const [fault, setFault] = useState(null as Fault | null);
  useEffect(() => {
    let abort = new AbortController();
    const begin = () => void follow(path, live, abort.signal, setLines, setFault);
    // A hidden tab gives its stream back, and reads the log again when it is seen.
    const turn = () => {
      abort.abort();
      abort = new AbortController();
      if (!document.hidden) begin();
    };
    setLines([]);
    setFault(null);
    begin();
    if (live) document.addEventListener("visibilitychange", turn);
    return () => {
      abort.abort();
      document.removeEventListener("visibilitychange", turn);
    };
  }, [path, live]);
  return [lines, fault] as const;
}

/**
 * Read the log by a stream, or again and again if other tabs have all streams, or a stream has ended
 * before its run.
 */
async function follow(
  path: string,
  live: boolean,
  abort: AbortSignal,
  onLines: (lines: Line[]) => void,
  onFault: (fault: Fault | null) => void,
) {
  let known = 0;
  for (;;) {
    const lost = new AbortController();
    const release = live ? await takeStream(() => lost.abort()) : null;
    const ends = AbortSignal.any([abort, lost.signal]);
    let more = live;
    try {
      let number = 0;
      let all: Line[] = [];
      const body = await logOf(path + (release ? "?follow=true" : ""), ends);
      onFault(null); // The log may have no line yet.
      for await (const lines of linesOf(body)) {
        all = [...all, ...lines.map((text) => line(text, (number += 1)))].slice(-MOST_LINES);
        if (number >= known) onLines(all); // What is read again does not shrink on the screen.
        known = Math.max(known, number);
        await sleep(50);
      }
    } catch (fault) {
      if (abort.aborted) return;
      if (!lost.signal.aborted) {
        onFault(fault as Fault);
        more = passing(fault as Fault);
      }
    } finally {
      release?.();
    }
    if (!more) return;
    await sleep(POLL_MS);
    if (abort.aborted) return;
  }
}

async function logOf(path: string, abort: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const answer = await open("GET", path, { signal: abort });
  if (!answer.ok || !answer.body) throw fault(answer, await answer.text(), `GET ${path}`);
  return answer.body;
}

function line(text: string, number: number): Line {
  const [, at = "", source = "", rest = text] = LINE.exec(text) ?? [];
  return { number, at, source, text: rest };
}
