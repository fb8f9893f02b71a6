/** The log of a run: followed at its end, searched, filtered by source. */
import { h } from "../vendor/preact.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { open } from "../wire/api.js";
import { linesOf, sleep } from "../wire/feed.js";
import { Curl } from "./copy.js";
import { html, visible } from "./text.js";

const MOST_LINES = 20000;
const LINE = /^(\S+) (\S+)\s+(.*)$/;

/** @param {{path: string, live: boolean}} props `path` of the run */
export function Log({ path, live }) {
  const lines = useLines(`${path}/log${live ? "?follow=true" : ""}`);
  const [source, setSource] = useState("");
  const [words, setWords] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [following, setFollowing] = useState(true);
  const sources = useMemo(() => [...new Set(lines.map((line) => line.source))], [lines]);
  const shown = lines.filter(
    (line) => (!source || line.source === source) && line.text.toLowerCase().includes(words),
  );
  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, following]);
  const onScroll = () => {
    const at = box.current;
    if (at) setFollowing(at.scrollTop + at.clientHeight > at.scrollHeight - 20);
  };
  return html`<div class="filters">
      <input
        type="search"
        aria-label="Search the log"
        placeholder="/ search"
        onInput=${(/** @type {any} */ event) => setWords(event.target.value.toLowerCase())}
      />
      ${sources.map(
        (one) => html`<button
          aria-pressed=${source === one}
          onClick=${() => setSource(source === one ? "" : one)}
        >
          ${visible(one)}
        </button>`,
      )}
      ${h(Curl, { path: `${path}/log`, stream: live })}
      ${!following && html`<button onClick=${() => setFollowing(true)}>To the end</button>`}
    </div>
    <div class="log" ref=${box} onScroll=${onScroll} tabindex="0" role="log" aria-label="Log of the run">
      ${shown.map(
        (line) => html`<div class=${`line ${line.source}`}>
          <time>${line.at.slice(11, 23)}</time> <span class="source">${visible(line.source)}</span>
          ${" "}${visible(line.text)}
        </div>`,
      )}
      ${!lines.length && html`<p>No line yet.</p>`}
    </div>`;
}

/** @typedef {{at: string, source: string, text: string}} Line */

/** @param {string} path @returns {Line[]} lines as they come */
function useLines(path) {
  const [lines, setLines] = useState(/** @type {Line[]} */ ([]));
  useEffect(() => {
    const abort = new AbortController();
    setLines([]);
    void read(path, abort.signal, (more) => setLines((old) => [...old, ...more].slice(-MOST_LINES)));
    return () => abort.abort();
  }, [path]);
  return lines;
}

/**
 * @param {string} path @param {AbortSignal} abort @param {(lines: Line[]) => void} onLines
 */
async function read(path, abort, onLines) {
  try {
    const answer = await open("GET", path, { signal: abort });
    if (!answer.ok || !answer.body) return;
    for await (const lines of linesOf(answer.body)) {
      onLines(lines.map(line));
      await sleep(50);
    }
  } catch {
    // The page shows what came; a new run or a reload reads it again.
  }
}

/** @param {string} text @returns {Line} */
function line(text) {
  const [, at = "", source = "", rest = text] = LINE.exec(text) ?? [];
  return { at, source, text: rest };
}
