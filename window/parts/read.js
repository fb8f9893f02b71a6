/** Documents and lists of the API that a page shows: read, read again, and their faults. */
import { useEffect, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { bdi, copy, Curl, html, Result, told } from "./text.js";
import { path } from "../state/route.js";
import { get, local, passing } from "../wire/api.js";
import { POLL_MS } from "../wire/feed.js";

/** @typedef {import("../wire/api.js").Fault} Fault */

/** A list of the fleet is read again after this time. */
export const LIST_MS = 10_000;

const UNREAD = { body: null, tag: "", fault: null };

/**
 * Read a document, and again when `again` changes or every `each` milliseconds.
 * @param {string | null} from a path; null: nothing is read
 * @param {{again?: unknown, each?: number}} [options]
 * @returns {{body: any, tag: string, fault: Fault | null, reload: () => void}}
 */
export function useDocument(from, { again, each = 0 } = {}) {
  const [state, setState] = useState(/** @type {any} */ (UNREAD));
  const [turn, setTurn] = useState(0);
  const reload = () => setTurn((last) => last + 1);
  useEffect(() => {
    if (from === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    get(from, abort.signal).then(
      ({ body, tag }) => setState({ body, tag, fault: null, from }),
      (fault) => {
        if (abort.signal.aborted) return;
        const soon = passing(fault);
        // What was read stays, with the fault, until the service answers again.
        setState((/** @type {any} */ old) => ({ ...(soon && old.from === from ? old : UNREAD), fault, from }));
        if (soon) timer = setInterval(() => document.hidden || reload(), POLL_MS);
      },
    );
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }, [from, turn, again]);
  useEffect(() => {
    if (!each) return undefined;
    const timer = setInterval(() => document.hidden || reload(), each);
    return () => clearInterval(timer);
  }, [each]);
  return { ...(state.from === from ? state : UNREAD), reload };
}

/** @param {Fault | null} fault @param {string} from the path that was read */
export const wrong = (fault, from) => fault && h(FaultBox, { fault, path: from });

/** @param {{fault: Fault, path?: string}} props */
export function FaultBox({ fault, path: from }) {
  return html`<div class="fault" role="alert">
    <p>
      <span class="sign" aria-hidden="true">▲</span> ${bdi(told(fault.message))}
    </p>
    <p class="small">
      ${fault.status ? `HTTP ${fault.status}` : "No answer"} ${fault.address}
      ${fault.request && html`<button class="quiet" onClick=${() => copy(fault.request)}>
        ${bdi(fault.request)}
      </button>`}
      ${from && h(Curl, { path: from })}
    </p>
  </div>`;
}

/** Lines of the final height while a document is read. @param {{rows?: number, children?: any}} props */
export function Skeleton({ rows = 5 }) {
  return html`<div class="skeleton" aria-label="Loading">
    ${Array.from({ length: rows }, () => html`<div />`)}
  </div>`;
}

/**
 * A document with its faults, then what `draw` makes of it.
 * @param {{path: string, again?: unknown, each?: number, draw: (body: any) => any, absent?: string}} props
 *   `absent`: words for 404
 */
export function Shown({ path: from, again, each = 0, draw, absent }) {
  const [page, setPage] = useState({ from, at: from });
  const at = page.from === from ? page.at : from;
  const { body, fault } = useDocument(at, { again, each });
  if (absent && fault?.status === 404) return html`<p role="status">${absent}</p>`;
  if (!body) return wrong(fault, at) ?? h(Skeleton, {});
  const next = body.next ? local(body.next) : from;
  return html`${wrong(fault, at)}<p class="tools">${h(Curl, { path: at })}</p>
    ${draw(body)}
    ${next !== at &&
    html`<button onClick=${() => setPage({ from, at: next })}>${body.next ? "Next" : "First"} page</button>`}`;
}

/** @param {{head: string[], rows: any[][], label: string}} props texts may come from machines */
export function List({ head, rows, label }) {
  if (!rows.length) return html`<p>There are none.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead>
        <tr>${head.map((one) => html`<th scope="col">${one}</th>`)}</tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<tr>${row.map((cell, at) => html`<td data-label=${head[at]}>${cellOf(cell)}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

/**
 * A list of the API as a table.
 * @param {{path: string, again?: unknown, each?: number, label: string, head: string[], of: string,
 *   row: (one: any) => any[]}} props `of`: its name in the answer; `row`: the cells of one
 */
export const Listed = ({ label, head, of, row, ...props }) =>
  h(Shown, { ...props, draw: (body) => h(List, { label, head, rows: body[of].map(row) }) });

/** Head of the column with the buttons that copy a row. */
export const COPY = "Copy";

/** @param {string[]} parts of a path @returns the cell that copies its request */
export const copyOf = (...parts) => h(Curl, { path: path(...parts) });

/** @param {any} cell nothing of an empty one, so that a narrow screen leaves it out */
const cellOf = (cell) => (cell === "" ? null : typeof cell === "string" ? bdi(cell) : cell);

/** @param {{of: unknown}} props a JSON value as a tree */
export function Tree({ of }) {
  if (of === null || typeof of !== "object") return html`<code>${bdi(of ?? "null")}</code>`;
  if (Array.isArray(of) && of.length && of.every((one) => typeof one === "string"))
    return html`<code>${bdi(of.join(", "))}</code>`;
  const entries = Object.entries(of);
  if (!entries.length) return html`<code>${Array.isArray(of) ? "[]" : "{}"}</code>`;
  return html`<dl class="tree">
    ${entries.map(
      ([name, value]) => html`<dt>${bdi(name)}</dt>
        <dd>${h(Tree, { of: value })}</dd>`,
    )}
  </dl>`;
}

const STATUSES = ["ok", "unknown", "warning", "failed"];

/** Checks of doctor: what is wrong comes first. @param {{checks: Record<string, any>[]}} props */
export const Checks = ({ checks }) => html`<ul class="checks">
  ${checks.sort((a, b) => STATUSES.indexOf(b.status) - STATUSES.indexOf(a.status)).map((one) => html`<li>
    ${h(Result, { result: one.status, word: false })} <strong>${one.name}</strong>
    <span class="small">${bdi(one.where ?? "")}</span> ${bdi(one.text)}
    ${one.do && html`<p class="do">${bdi(one.do)}</p>`}
  </li>`)}
</ul>`;
