/** Documents and lists of the API that a page shows: read, read again, and their faults. */
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clockTime, dayOf, timeNow } from "../state/clock";
import { path } from "../state/route";
import { prefs } from "../state/settings";
import { Fault, get, local, oneAtATime, passing } from "../wire/api";
import { offline } from "../wire/away";
import { type Answers } from "../wire/documents";
import { type Json } from "../wire/json";
import { POLL_MS } from "../wire/feed";
import { useFade } from "./fade";
import { Ago, bdi, Result, Tree } from "./text";
import { copy, Curl, MenuCurl } from "./toasts";
import { many, optionsIn, visible, wording } from "./words";

/** A list of the fleet is read again after this time. */
export const LIST_MS = 10_000;

const UNREAD = { body: null, tag: "", fault: null, at: "" };

/**
 * Read a document, and again when `again` changes or every `each` milliseconds.
 * @param from a path; null: nothing is read
 * @returns `at`: when it was read
 */
export function useDocument(
  from: string | null,
  { again, each = 0 }: { again?: unknown; each?: number } = {},
): { body: any; tag: string; fault: Fault | null; at: string; reload: () => void } {
  const [state, setState] = useState(UNREAD as any);
  const reading = useRef({ again: () => {}, now: () => {} });
  const fresh = useRef(true);
  useEffect(() => {
    fresh.current = true;
    if (from === null) return undefined;
    let timer = 0;
    const found = oneAtATime(async (abort) => {
      clearTimeout(timer);
      try {
        const { body, tag } = await get(from, abort);
        if (over) return;
        setState({ body, tag, fault: null, from, at: timeNow() });
      } catch (fault) {
        if (over) return;
        const soon = passing(fault as Fault);
        // What was read stays, with the fault, until the service answers again.
        setState((old: any) => ({ ...(soon && old.from === from ? old : UNREAD), fault, from }));
        const later = () => (document.hidden ? (timer = setTimeout(later, POLL_MS)) : found.now());
        if (soon) timer = setTimeout(later, POLL_MS);
      }
    });
    let over = false;
    reading.current = found;
    found.now();
    return () => {
      over = true;
      clearTimeout(timer);
      found.stop();
      reading.current = { again: () => {}, now: () => {} };
    };
  }, [from]);
  useEffect(() => {
    if (!fresh.current) reading.current.again();
    fresh.current = false;
  }, [from, again]);
  useEffect(() => {
    if (!each) return undefined;
    const timer = setInterval(() => document.hidden || reading.current.now(), each);
    return () => clearInterval(timer);
  }, [each]);
  const reload = () => reading.current.again();
  return { ...(state.from === from ? state : UNREAD), reload };
}

/**
 * What is wrong with a document; a service that is away is told once, in the bar.
 * @param from the path that was read
 * @param at when what is shown was read
 */
export const wrong = (fault: Fault | null, from: string = "", at: string = "") =>
  fault && (fault.status || !offline.value) ? <FaultBox fault={fault} path={from} at={at} /> : null;

export function FaultBox({ fault, path: from, at }: { fault: Fault; path?: string; at?: string }) {
  return (
    <div class="fault" role="alert">
      <p>
        <span class="sign" aria-hidden="true">
          ▲
        </span>{" "}
        <span title={optionsIn(fault.message)}>{bdi(wording(fault.message))}</span>
      </p>
      {at && <p>Old: what is shown was read at {clockTime(at, prefs.value.utc, true)}.</p>}
      <p class="small">
        {fault.status ? `HTTP ${fault.status}` : "No answer"} {fault.address}
        {fault.request && (
          <button class="quiet" onClick={() => copy(fault.request)}>
            {bdi(fault.request)}
          </button>
        )}
        {from && <Curl path={from} />}
      </p>
    </div>
  );
}

/** When a document that is not read again by itself was read, and a button that does so. */
function ReadAt({ at, onAgain }: { at: string; onAgain: () => void }) {
  return (
    <span class="small">
      Read {clockTime(at, prefs.value.utc, true)}, <Ago at={at} ago />{" "}
      <button class="quiet" onClick={onAgain}>
        Read again
      </button>
    </span>
  );
}

/** Lines of the final height while a document is read. */
export function Skeleton({ rows = 5 }: { rows?: number; children?: any }) {
  return (
    <div class="skeleton" role="img" aria-label="Loading">
      {Array.from({ length: rows }, () => (
        <div />
      ))}
    </div>
  );
}

/**
 * A document with its faults, then what `draw` makes of it. Unless it is read again by itself, its age
 * is shown.
 * @param props `absent`: words for 404; `madeAt`: the time of a document that the service keeps; `bare`:
 *   without its age
 */
export function DocumentView({
  path: from,
  again,
  each = 0,
  draw,
  absent,
  madeAt,
  bare,
}: {
  path: string;
  again?: unknown;
  each?: number;
  draw: (body: any) => any;
  absent?: string;
  madeAt?: (body: any) => string;
  bare?: boolean;
}) {
  const [page, setPage] = useState({ from, at: from });
  const place = page.from === from ? page.at : from;
  const { body, fault, at, reload } = useDocument(place, { again, each });
  if (absent && fault?.status === 404) return <p role="status">{absent}</p>;
  if (!body) return wrong(fault, place) ?? <Skeleton />;
  const next = body.next ? local(body.next) : from;
  return (
    <>
      {wrong(fault, place, at)}
      <MenuCurl path={place} />
      {!bare && !each && again === undefined && (
        <p class="tools">
          <ReadAt at={madeAt?.(body) ?? at} onAgain={reload} />
        </p>
      )}
      {draw(body)}
      {next !== place && (
        <button onClick={() => setPage({ from, at: next })}>{body.next ? "Next" : "First"} page</button>
      )}
    </>
  );
}

/** Columns of numbers and durations, which are at the right. */
const NUMBERS = new Set(["Took", "Count", "Failed", "Usual", "90 %", "Longest", "Wave"]);

/**
 * @param props texts may come from machines; `days`: the times of the rows in their order, each day has
 *   a heading; `keys`: what the rows are of, so that their changes can be seen; `numbers`: all columns but the first are numbers; `none`: words without rows
 */
export function List({
  head,
  rows,
  label,
  days,
  keys,
  numbers,
  none = `No ${label.toLowerCase()} yet.`,
}: {
  head: string[];
  rows: any[][];
  label: string;
  days?: (string | null | undefined)[];
  keys?: string[];
  numbers?: boolean;
  none?: string;
}) {
  if (!rows.length) return <p>{none}</p>;
  const { utc } = prefs.value;
  const kind = (at: number) => (NUMBERS.has(head[at] ?? "") || (numbers && at) ? "number" : undefined);
  const headings = days?.map((at) => at && dayOf(at, utc));
  return (
    <div class="scroll" tabindex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((title, at) => (
              <th scope="col" class={kind(at)}>
                {bdi(title)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, place) => (
            <Fragment key={keys?.[place]}>
              {headings?.[place] && headings[place] !== headings[place - 1] && (
                <tr class="day">
                  <th scope="rowgroup" colspan={head.length}>
                    {headings[place]}
                  </th>
                </tr>
              )}
              <Row faded={!!keys}>
                {row.map((cell, at) => (
                  <td data-label={visible(head[at])} class={kind(at)}>
                    {cellOf(cell)}
                  </td>
                ))}
              </Row>
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** @param props `faded`: it stays the row of the same thing */
function Row({ faded, children }: { faded: boolean; children: any }) {
  const element = useRef<HTMLTableRowElement>(null);
  useFade(faded ? element : NO_ROW);
  return <tr ref={element}>{children}</tr>;
}

const NO_ROW = { current: null };

/**
 * A list of the API as a table.
 * @param props `of`: its name in the answer; `row`: the cells of one; `day`: the time of one whose days
 *   are headings
 */
export const DocumentList = ({
  label,
  head,
  of,
  row,
  day,
  none,
  ...props
}: {
  path: string;
  again?: unknown;
  each?: number;
  bare?: boolean;
  label: string;
  head: string[];
  of: string;
  row: (item: any) => any[];
  day?: (item: any) => string;
  none?: string;
}) => (
  <DocumentView
    {...props}
    draw={(body) => (
      <List
        label={label}
        head={head}
        rows={body[of].map(row)}
        keys={body[of].map((item: any, at: number) => item.uuid ?? item.name ?? item.hostname ?? String(at))}
        {...(day && { days: body[of].map(day) })}
        {...(none && { none })}
      />
    )}
  />
);

/** Head of the column with the buttons that copy a row. */
export const COPY = "Copy";

/**
 * @param parts of a path
 * @returns the cell that copies its request
 */
export const copyOf = (...parts: string[]) => <Curl path={path(...parts)} />;

/** @param cell nothing of an empty one, so that a narrow screen leaves it out */
const cellOf = (cell: any) => (cell === "" ? null : typeof cell === "string" ? bdi(cell) : cell);

/** Facts with their labels; a fact that is empty is left out. */
export const Facts = ({ of }: { of: readonly (readonly [string, any])[] }) => (
  <dl class="tree facts">
    {of
      .filter(([, fact]) => fact != null && fact !== "")
      .map(([label, fact]) => (
        <>
          <dt>{bdi(label)}</dt>
          <dd>{typeof fact === "object" ? fact : bdi(fact)}</dd>
        </>
      ))}
  </dl>
);

/** A document as a tree behind a word; without `body` it is read when it is unfolded. */
export function JsonOf({ path: from, body }: { path?: string; body?: unknown }) {
  const [open, setOpen] = useState(false);
  const read = useDocument(open && from ? from : null);
  const known = body ?? read.body;
  return (
    <details class="json" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>JSON{from && <span class="small"> of {bdi(from)}</span>}</summary>
      {open && (known ? <Tree of={known} /> : (wrong(read.fault, from) ?? <Skeleton rows={3} />))}
    </details>
  );
}

/** @returns a document without its lists of links */
export const withoutLinks = (node: Json) =>
  Object.fromEntries(Object.entries(node).filter(([, value]) => !linked(value)));

const linked = (value: any) => Array.isArray(value) && value[0]?.href !== undefined;

const STATUSES = ["ok", "unknown", "warning", "failed"];

export type Check = Answers["/v1/doctor"]["checks"][number];

/** Checks of doctor: what is wrong comes first; checks that say the same are one row that unfolds. */
export function Checks({ checks }: { checks: Check[] }) {
  const groups = new Map<string, Check[]>();
  for (const check of checks) {
    const words = JSON.stringify([check.status, check.text, check.do]);
    groups.set(words, [...(groups.get(words) ?? []), check]);
  }
  const bad = new Set(checks.filter(({ status }) => status !== "ok").map(({ name }) => name));
  const rank = ([check]: Check[]) => STATUSES.indexOf(check?.status ?? "");
  return (
    <ul class="checks">
      {[...groups.values()]
        .sort((a, b) => rank(b) - rank(a))
        .map((group) => (
          <CheckRow group={group} bad={bad} />
        ))}
    </ul>
  );
}

/** @param props `bad`: names of checks that found something; what they found sound are other things */
function CheckRow({ group, bad }: { group: Check[]; bad: Set<string> }) {
  const [check] = group;
  if (!check) return null;
  const name = check.status === "ok" && bad.has(check.name) ? `other ${check.name}` : check.name;
  const places = [...new Set(group.map(({ where }) => where))].join(", ");
  return (
    <li>
      <Result result={check.status} word={false} />{" "}
      <strong>{group.length > 1 ? many(group.length, "check") : name}</strong>
      <span class="small">{bdi(places)}</span> {bdi(check.text)}
      {check.do && <p class="do">{bdi(check.do)}</p>}
      {group.length > 1 && (
        <details class="do">
          <summary>which</summary>
          <span>{group.map(({ name }) => name).join(", ")}</span>
        </details>
      )}
    </li>
  );
}
