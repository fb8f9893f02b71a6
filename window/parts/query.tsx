/** The query of the fleet: words and tokens with completions, numbers of states, saved views. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { STATES } from "../facts";
import { fleet, KIND_ORDER, predicate, remote } from "../state/nodes";
import { addressOf, changeRoute, decoded, go, href, route } from "../state/route";
import { prefs, set } from "../state/settings";
import { split, suggestions, withoutTokens } from "../state/tokens";
import { get, oneAtATime } from "../wire/api";
import { close, show } from "./dialog";
import { Field, typed } from "./fields";
import { ActForm } from "./form";
import { LIST_MS } from "./read";
import { bdi } from "./text";
import { FAILED_STATES, KINDS, sum } from "./words";

/** Nodes that pass the filters beside one argument, for the numbers of its values. */
function beside(argument: string, words: string) {
  const query = new URLSearchParams(route.value.query);
  query.delete(argument);
  return [...fleet.nodes.values()].filter(predicate(query, words));
}

export function QueryField({ words }: { words: string }) {
  const [at, setAt] = useState(-1);
  const [open, setOpen] = useState(false);
  const others = words.replace(/\S*$/, "").trim();
  const offered = open ? suggestions(words, beside("", others)) : [];
  const put = (text: string) => {
    setAt(-1);
    setOpen(true);
    // A token is complete when something follows it.
    const { words: left, found } = /\s$/.test(text) ? split(text) : { words: text, found: {} };
    const complete = Object.keys(found).length > 0;
    changeRoute({ ...found, "~q": complete ? left : text }, { replace: !complete });
  };
  const choose = (text: string) => put(`${words.replace(/\S*$/, "")}${text}${text.endsWith(":") ? "" : " "}`);
  const leave = (event: any) => {
    const { key, currentTarget: field } = event;
    const step = { ArrowDown: 1, ArrowUp: -1 }[key as string];
    const chosen = offered[at];
    if (step && offered.length) setAt(Math.max(-1, Math.min(offered.length - 1, at + step)));
    else if (key === "Tab" && !event.shiftKey && offered.length) choose((chosen ?? offered[0]!).text);
    else if (key === "Enter" && chosen) choose(chosen.text);
    else if (key === "Enter" && Object.keys(split(words).found).length) put(`${words} `);
    else if (key === "Escape" && offered.length) setOpen(false);
    else if (key === "Escape" && !field.value) field.blur();
    else if (key === "Enter" || key === "ArrowDown")
      (document.querySelector(".grid, .squares") as any)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="query">
      <input
        id="filter"
        type="search"
        autocomplete="off"
        aria-label="Filter by name, state, serial number, address and other values"
        aria-autocomplete="list"
        aria-controls="query-list"
        aria-activedescendant={offered[at] ? `query-${at}` : undefined}
        placeholder="/ name, serial, MAC, owner… state:failed class:gpu"
        value={words}
        onInput={typed(put)}
        onKeyDown={leave}
        onBlur={() => setOpen(false)}
      />
      <ul id="query-list" role="listbox" aria-label="Completions" hidden={!offered.length}>
        {offered.map(({ text, count }, place) => (
          // Before the field loses the focus, with which the list would go.
          <li
            id={`query-${place}`}
            role="option"
            aria-selected={place === at}
            onMouseDown={(event: MouseEvent) => (event.preventDefault(), choose(text))}
          >
            {bdi(text)} <span class="small">{count ?? "filter"}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** @returns nodes of the whole fleet */
export function total(): number {
  const counts = fleet.counts.value;
  return counts ? sum(counts.values()) : fleet.nodes.size;
}

/** States with the numbers of their nodes that pass the other filters; a click filters. */
export function Chips() {
  const turn = fleet.slowTick.value;
  const { query, view } = route.value;
  const words = withoutTokens(view.q ?? "");
  const others = new URLSearchParams(query);
  others.delete("provision_state");
  // Only nodes that are here can be counted by all filters; else the service counts them.
  const held = !remote(others).length && !fleet.counts.value;
  const narrowed = (others.size > 0 || !!words) && held;
  const asked = useCounts(held ? "" : others.toString());
  const counts = useMemo(() => {
    const whole = narrowed ? null : (asked ?? fleet.counts.value);
    const found: Map<string, number> = new Map(whole ?? []);
    const counted = narrowed ? beside("provision_state", words) : fleet.nodes.values();
    for (const node of whole ? [] : counted) {
      const state = node.provision_state;
      found.set(state, (found.get(state) ?? 0) + 1);
    }
    return [...found].sort(([state], [other]) => rank(state) - rank(other));
  }, [turn, asked, fleet.counts.value, narrowed, others.toString(), words]);
  const chosen = (route.value.query.get("provision_state") ?? "").split(",").filter(Boolean);
  const pick: (state: string, more: boolean) => void = (state, more) => {
    const others = more ? chosen.filter((other) => other !== state) : [];
    const next = chosen.includes(state) ? others : [...others, state];
    changeRoute({ provision_state: next.join(",") });
  };
  const failed = counts.filter(([state]) => FAILED_STATES.includes(state));
  return (
    <div class="chips" role="group" aria-label="States">
      <button aria-pressed={!route.value.query.size && !route.value.view.q} onClick={clearFilters}>
        all {total()}
      </button>
      {others.size > 0 && chosen.length > 0 && (
        <button onClick={() => changeRoute({ provision_state: "" })}>
          any state {sum(counts.map(([, count]) => count))}
        </button>
      )}
      {failed.length > 1 && (
        <button onClick={() => changeRoute({ provision_state: FAILED_STATES.join() })}>
          ▲ failed {sum(failed.map(([, count]) => count))}
        </button>
      )}
      {counts.map(([state, count]) => {
        const kind = STATES[state] ?? "stable";
        return (
          <button
            class={`state ${kind}`}
            aria-pressed={chosen.includes(state)}
            title={chosen.length ? ADDS : undefined}
            onClick={(event: MouseEvent) => pick(state, event.shiftKey)}
          >
            <span class="sign" aria-hidden="true">
              {KINDS[kind]}
            </span>{" "}
            {state} {count}
          </button>
        );
      })}
      {chosen.length > 0 && <span class="small adds">{ADDS}</span>}
    </div>
  );
}

const ADDS = "Shift-click adds a state, or takes it away";

/**
 * Numbers of nodes by state, counted by the service.
 * @param filter of the list of nodes; "" asks nothing
 */
function useCounts(filter: string): Map<string, number> | null {
  const [found, setFound] = useState({ filter: "", counts: new Map<string, number>() });
  useEffect(() => {
    if (!filter) return undefined;
    let over = false;
    const reading = oneAtATime(async (abort) => {
      try {
        const { body } = await get(`/v1/stats/nodes?by=provision_state&${filter}`, abort);
        const rows = body.counts.map((row: any) => [row.provision_state, row.count] as const);
        if (!over) setFound({ filter, counts: new Map(rows) });
      } catch {
        // The list of nodes tells the same fault.
      }
    });
    reading.now();
    const timer = setInterval(() => document.hidden || reading.now(), LIST_MS);
    return () => {
      over = true;
      clearInterval(timer);
      reading.stop();
    };
  }, [filter]);
  return filter && found.filter === filter ? found.counts : null;
}

export const clearFilters = () => {
  const { view } = route.value;
  go(href("/v1/nodes", {}, { ...view, q: "" }), { sel: view.sel });
};

const rank = (state: string) => -KIND_ORDER.indexOf(STATES[state] ?? "stable");

const FLEET = /^#\/v1\/nodes(\?|$)/;

/** The saved views of the fleet. They are always there, because nothing may move under the pointer. */
export function Views() {
  const saved = Object.entries(prefs.value.views).filter(([, address]) => FLEET.test(address));
  const here = addressOf(route.value);
  const known = saved.some(([, address]) => address === here);
  return (
    <nav class="views" aria-label="Views">
      {[["All nodes", "#/v1/nodes"] as const, ...saved].map(([name, address]) => (
        <a href={address} aria-current={address === here ? "page" : undefined}>
          {bdi(name)}
        </a>
      ))}
      {here !== "#/v1/nodes" && !known && (
        <button class="quiet" onClick={saveView}>
          + Save this view
        </button>
      )}
    </nav>
  );
}

/** Save what the page shows, under a name. */
export const saveView = () => show(() => <SaveView address={addressOf(route.value)} />);

function SaveView({ address }: { address: string }) {
  const [name, setName] = useState("");
  const save = () => {
    set({ views: { ...prefs.value.views, [name.trim()]: address } });
    close();
  };
  return (
    <ActForm title="Save this view" button="Save" ready={!!name.trim()} send={save}>
      <Field label="Name" class="block" required onInput={typed(setName)} />
      <p class="small">{bdi(decoded(address.slice(1)))}</p>
    </ActForm>
  );
}
