/** Texts with their markup: names, links, times, states, results, filters. */
import { STATES } from "../facts";
import { health } from "../state/health";
import { absolute, duration, now, since, timeOfDay } from "../state/clock";
import { changeRoute, href, path } from "../state/route";
import { prefs } from "../state/settings";
import { ERASING, FAILED_STATES, KINDS, marksOf, nameOf, visible, wording } from "./words";

/** @param value a text of machines or people, or JSON */
export const bdi = (value: unknown) => <bdi>{visible(value)}</bdi>;

/** @returns the address of its page */
export const nodeAddress = (node: Record<string, any>): string => href(path("nodes", nameOf(node)));

/** @param to a path of the API */
export const link = (to: string, value: unknown) => <a href={href(to)}>{bdi(value)}</a>;

/** @param node with `name` or `uuid` */
export const nodeLink = (node: Record<string, any>) => link(path("nodes", nameOf(node)), nameOf(node));

/** A time as its distance from now, with the whole time as its title. */
export function Ago({ at, ago = false }: { at: string | null | undefined; ago?: boolean }) {
  if (!at) return null;
  const { utc } = prefs.value;
  return (
    <time datetime={at} title={absolute(at, utc)}>
      {duration(since(at))}
      {ago ? " ago" : ""}
    </time>
  );
}

/**
 * A time with seconds, and the whole time in UTC as its title.
 * @param beside a time whose day is shown; without one, a time of today has no date
 */
export const stamp = (at: string | null | undefined, beside?: string | null) =>
  at && (
    <time datetime={at} title={absolute(at, true)}>
      {timeOfDay(at, prefs.value.utc, beside ?? new Date(now.peek()).toISOString())}
    </time>
  );

/** A time with its day and its zone. */
export const wholeStamp = (at: string) => (
  <time datetime={at} title={absolute(at, true)}>
    {absolute(at, prefs.value.utc)}
  </time>
);

/**
 * What an erase has left, and what to do next as the API advises.
 * @param why of a node
 */
export const advice = (why: Record<string, any> | null | undefined) =>
  why && (
    <>
      {ERASING.test(why.failure?.step) && why.data_state !== "clean" && "The disks may be partly erased. "}
      {why.do && <strong>{bdi(wording(why.do))}</strong>}
    </>
  );

/** The filters of a page; a press removes one. */
export const filters = (query: URLSearchParams) =>
  [...query].map(([name, value]) => (
    <button class="pressed" onClick={() => changeRoute({ [name]: "" })}>
      {value === FAILED_STATES.join() ? (
        "failed"
      ) : (
        <>
          {name}: {bdi(value)}
        </>
      )}{" "}
      <span aria-label="remove">×</span>
    </button>
  ));

/** `retired` and `protected`, as tags beside a node. */
export const Marks = ({ node }: { node: Record<string, any> | null | undefined }) => (
  <>
    {marksOf(node).map((mark) => (
      <>
        {" "}
        <span class="tag">{mark}</span>
      </>
    ))}
  </>
);

// -- States as shape, word and colour.

/** Results of runs and steps. */
const RESULTS: Record<string, string> = {
  done: "✓",
  complete: "✓",
  erased: "✓",
  partial: "▲",
  failed: "▲",
  aborted: "×",
  running: "◐",
  waiting: "◔",
  held: "■",
  pending: "○",
  kept: "↷",
  waived: "⤼",
  skipped: "⤼",
  starting: "◌",
  accepted: "◔",
  undone: "↶",
  paused: "■",
  refused: "×",
  ok: "✓",
  warning: "!",
  unknown: "?",
};

/** @param props a provision state */
export function State({ state }: { state: string | null }) {
  const kind = STATES[state ?? ""] ?? "stable";
  return (
    <span class={`state ${kind}`}>
      <span class="sign" aria-hidden="true">
        {KINDS[kind]}
      </span>
      {bdi(state)}
    </span>
  );
}

/** @param props the health of a machine, which the service may not know */
export function Health({ value }: { value: unknown }) {
  const { label, tone } = health(value);
  return (
    <span class={`state ${tone}`}>
      <span class="sign" aria-hidden="true">
        {KINDS[tone] ?? "○"}
      </span>
      {label}
    </span>
  );
}

/** @param props a result of a run, a step or a check */
export function Result({ result, word = true }: { result: string; word?: boolean }) {
  return (
    <span class={`result ${result}`}>
      <span class="sign" aria-hidden="true">
        {RESULTS[result] ?? "○"}
      </span>
      {word ? ` ${result}` : <span class="unseen">{result}</span>}
    </span>
  );
}

/** @param props a JSON value as a tree */
export function Tree({ of }: { of: unknown }) {
  if (of === null || typeof of !== "object") return <code>{bdi(of ?? "null")}</code>;
  if (Array.isArray(of) && of.length && of.every((item) => typeof item === "string"))
    return of.length > FEW ? <Folded of={of} /> : <code>{bdi(of.join(", "))}</code>;
  const entries = Object.entries(of);
  if (!entries.length) return <code>{Array.isArray(of) ? "[]" : "{}"}</code>;
  return (
    <dl class="tree">
      {entries.map(([name, value]) => (
        <>
          <dt>{bdi(name)}</dt>
          <dd>
            <Tree of={value} />
          </dd>
        </>
      ))}
    </dl>
  );
}

/** More texts than this are folded. */
const FEW = 12;

const Folded = ({ of }: { of: string[] }) => (
  <details>
    <summary>{of.length} values</summary>
    <ul class="columns">
      {of.map((text) => (
        <li>
          <code>{bdi(text)}</code>
        </li>
      ))}
    </ul>
  </details>
);
