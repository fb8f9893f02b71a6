/** The palette: pages, nodes by name, and acts on the nodes that are shown or selected; the help. */
import { useEffect, useState } from "preact/hooks";
import { VERBS } from "../facts";
import { type Node } from "../pages/fleet";
import { fleet, followFleet, selectedNodes } from "../state/nodes";
import { go, href, path, route } from "../state/route";
import { type Hit, hitText, useSearch } from "../state/search";
import { prefs } from "../state/settings";
import { BULK } from "./bulk";
import { close, show } from "./dialog";
import { typed } from "./fields";
import { ActForm } from "./form";
import {
  openEnroll,
  openHold,
  openLift,
  openMachines,
  openMaintenance,
  openPower,
  openRetirement,
  openVerb,
} from "./openers";
import { MORE, nextTheme, PAGES, WORDS } from "./places";
import { saveView } from "./query";
import { bdi, nodeAddress } from "./text";
import { many, nameOf, POWER_ACTS, verb, verbsFrom } from "./words";

const MOST = 20;
/** Acts that are shown with nodes that match. */
const MOST_ACTS = 10;

export type Entry = { label: string; hint: string; act: () => void };

/** Exact names first, acts last: Enter after the name of a machine opens its page. */
function entries(words: string, hits: Hit[]): Entry[] {
  const wanted = words.trim().toLowerCase();
  const places = [...PAGES.map(([, ...place]) => place), ...MORE];
  const pages = places.map(([label, address]) => ({
    label,
    hint: "page",
    act: () => go(`#${address}`),
  }));
  const views = Object.entries(prefs.value.views).map(([name, address]) => ({
    label: name,
    hint: "saved view",
    act: () => go(address),
  }));
  const others = [
    { label: "Save this view", hint: "setting", act: saveView },
    { label: "Next theme", hint: "setting", act: nextTheme },
    { label: "Settings", hint: "page", act: () => go("#/v1/whoami") },
  ];
  const matching = (all: Entry[]) => all.filter((entry) => entry.label.toLowerCase().includes(wanted));
  const [exact, named] = nodesNamed(wanted);
  const found = [...exact, ...matching([...pages, ...views, ...others]), ...named, ...nodesHit(hits)];
  const acts = [...matching(actsHere()), ...actsOn(wanted), ...actsAnywhere(wanted)].slice(0, MOST_ACTS);
  return [...found.slice(0, MOST - acts.length), ...acts];
}

/** @returns the node of this name or UUID, and others of which the name has these words */
function nodesNamed(wanted: string): [Entry[], Entry[]] {
  const exact: Entry[] = [];
  const found: Entry[] = [];
  if (!wanted) return [exact, found];
  for (const node of fleet.nodes.values()) {
    const name = String(nameOf(node));
    const same = [name.toLowerCase(), node.uuid].includes(wanted);
    if (!same && (found.length === MOST || !`${name.toLowerCase()}\n${node.uuid}`.includes(wanted))) continue;
    (same ? exact : found).push({
      label: name,
      hint: node.provision_state,
      act: () => go(nodeAddress(node)),
    });
  }
  return [exact, found];
}

/** @returns nodes that the service has found by other values than their names */
const nodesHit = (hits: Hit[]): Entry[] =>
  hits
    .filter(({ field }) => field !== "name" && field !== "uuid")
    .map((hit) => ({ label: String(nameOf(hit)), hint: hitText(hit), act: () => go(nodeAddress(hit)) }));

/** @returns verbs on a node that the words name behind the verb: `clean rack1-06` */
function actsOn(wanted: string): Entry[] {
  const [first = "", ...rest] = wanted.split(/\s+/);
  const name = rest.join(" ");
  const node =
    name && [...fleet.nodes.values()].find((one) => [one.name?.toLowerCase(), one.uuid].includes(name));
  if (!node || node.uuid === shownNode()?.uuid) return [];
  return actsOf(node).filter((entry) => entry.label.toLowerCase().startsWith(first));
}

/** @returns acts without a node: enroll one, or choose the nodes of a verb */
function actsAnywhere(wanted: string): Entry[] {
  const here = new Set(actsHere().map((entry) => entry.label.split(" ")[0]));
  const verbs = VERBS.filter(({ alias, target }) => !alias && !here.has(verb(target))).map(
    ({ target, from }) => ({
      label: `${verb(target)}…`,
      hint: "choose nodes",
      act: () => go(href("/v1/nodes", { provision_state: from.join() })),
    }),
  );
  const enrolls = [
    { label: "Enroll…", hint: "act", act: openEnroll },
    { label: "Enroll many machines…", hint: "act", act: openMachines },
  ];
  const all = [...enrolls, ...verbs];
  return wanted ? all.filter((entry) => entry.label.toLowerCase().startsWith(wanted)) : [];
}

/** @returns the node whose page is shown */
function shownNode(): Node | undefined {
  const [root, name] = route.value.parts;
  if (root !== "nodes" || !name) return undefined;
  return [...fleet.nodes.values()].find((node) => node.name === name || node.uuid === name);
}

/** @returns acts on the node that is shown, or on those that are selected */
function actsHere(): Entry[] {
  const [root, name] = route.value.parts;
  const chosen = selectedNodes();
  if (root === "nodes" && !name && chosen.length) {
    const count = many(chosen.length);
    return Object.entries(BULK).map(([label, act]) => ({
      label: `${label} ${count}`,
      hint: "act",
      act: () => act(chosen),
    }));
  }
  const node = shownNode();
  return node ? actsOf(node) : [];
}

function actsOf(node: Node): Entry[] {
  const name = String(nameOf(node));
  const own = path("nodes", node.uuid);
  const holds = fleet.holds.value.get(node.uuid) ?? [];
  const entry =
    (hint: string): ((act: [string, () => void]) => Entry) =>
    ([label, act]) => ({ label: `${label} ${name}`, hint, act });
  const verbs = verbsFrom(new Set([node.provision_state])).map(
    (target) => [verb(target), () => openVerb(node, target)] as [string, () => void],
  );
  const acts = [
    ["Hold", () => openHold({ own, name, holds })],
    ...(holds.length ? [["Lift hold of", () => openLift({ own, name, holds })]] : []),
    [node.maintenance ? "End maintenance of" : "Maintenance of", () => openMaintenance(node)],
    ...POWER_ACTS.map((act) => [verb(act[0]), () => openPower(node, act)]),
    [node.retired ? "End retirement of" : "Retire", () => openRetirement(node)],
  ] as [string, () => void][];
  return [...verbs.map(entry("verb")), ...acts.map(entry("act"))];
}

function Palette() {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  // A page opened cold knows no nodes, and is still reading them.
  useEffect(() => void followFleet(), []);
  void fleet.tick.value;
  const { hits } = useSearch(words, MOST);
  const found = entries(words, hits);
  const chosen = Math.min(at, found.length - 1);
  const run = (entry: Entry | undefined) => {
    close();
    entry?.act();
  };
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt(Math.max(0, Math.min(found.length - 1, chosen + step)));
    else if (event.key === "Enter") run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <div class="palette">
      <h2 id="dialog-title" class="unseen">
        Find
      </h2>
      <input
        autofocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={`palette-${chosen}`}
        aria-label="Pages, nodes and verbs"
        placeholder="Pages, nodes, serial numbers, addresses, verbs"
        onInput={typed((value) => (setWords(value), setAt(0)))}
        onKeyDown={keys}
      />
      <button class="quiet" onClick={close}>
        Close
      </button>
      <ul id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, place) => (
          <li
            id={`palette-${place}`}
            role="option"
            aria-selected={place === chosen}
            onClick={() => run(entry)}
          >
            {bdi(entry.label)} <span class="small">{entry.hint}</span>
          </li>
        ))}
      </ul>
      {!found.length && <p role="status">No match.</p>}
    </div>
  );
}

const HELP = [
  ["Ctrl-K  :", "find pages, nodes by any value, verbs"],
  ["/", "filter or search: words, or tokens such as class:gpu and state:available,cleaning"],
  ["g then f r b e v s d", "pages"],
  ["j k ↑ ↓ Home End", "row"],
  ["Shift-click on a state", "add it to the filter"],
  ["x Shift-↓ Shift-↑ Ctrl-A", "select; Shift-click selects a range"],
  ["Enter  Esc", "open; close or clear"],
  ["c  y", "copy the page or the row as curl, copy the address"],
  ["1 – 5  w l", "tab of a node; its overview, its log"],
  ["n  N", "next, previous line that is searched in a log"],
  [".", "acts on a node, or on those that are selected"],
  ["t  ?", "theme, help"],
] as const;

function Help() {
  return (
    <ActForm title="Shortcuts">
      <dl class="help">
        {HELP.map(([keys, what]) => (
          <>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <p>
        <a href={`#${WORDS}`}>The words of the window</a> are explained on a page of their own.
      </p>
    </ActForm>
  );
}

// No part of its own that is loaded late: what is typed after its key is for the palette.
export const openPalette = () => show(() => <Palette />);

export const openHelp = () => show(() => <Help />);
