/** The palette: pages, nodes by name, and acts on the nodes that are shown or selected; the help. */
import { useEffect, useState } from "preact/hooks";
import { fleet, followFleet, selectedNodes } from "../state/nodes";
import { go, path, route } from "../state/route";
import { prefs, set } from "../state/settings";
import { BULK } from "./bulk";
import { close, show } from "./dialog";
import { typed } from "./fields";
import { ActForm } from "./form";
import { openHold, openLift, openMaintenance, openPower, openVerb } from "./openers";
import { nextTheme, PAGES } from "./places";
import { bdi, nodeAddress } from "./text";
import { say } from "./toasts";
import { many, nameOf, POWER_ACTS, verb, verbsFrom } from "./words";

const MOST = 20;

export type Entry = { label: string; hint: string; act: () => void };

function entries(words: string): Entry[] {
  const wanted = words.toLowerCase();
  const pages = PAGES.map(([, label, address]) => ({
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
  const found = [...actsHere(), ...pages, ...views, ...others].filter((entry) =>
    entry.label.toLowerCase().includes(wanted),
  );
  return [...found, ...nodesNamed(wanted)].slice(0, MOST);
}

function nodesNamed(wanted: string): Entry[] {
  if (!wanted) return [];
  const found = [];
  for (const node of fleet.nodes.values()) {
    const name = String(nameOf(node));
    if (!name.toLowerCase().includes(wanted) && !node.uuid.startsWith(wanted)) continue;
    found.push({ label: name, hint: node.provision_state, act: () => go(nodeAddress(node)) });
    if (found.length === MOST) break;
  }
  return found;
}

/** @returns acts on the node that is shown, or on those that are selected */
function actsHere(): Entry[] {
  const [root, name] = route.value.parts;
  const chosen = selectedNodes();
  const entry =
    (hint: string, of: string): ((act: [string, () => void]) => Entry) =>
    ([label, act]) => ({ label: `${label} ${of}`, hint, act });
  if (root === "nodes" && !name && chosen.length) {
    return Object.entries(BULK).map(([label, act]) =>
      entry("act", many(chosen.length))([label, () => act(chosen)]),
    );
  }
  const node =
    root === "nodes" &&
    [...fleet.nodes.values()].find((candidate) => candidate.name === name || candidate.uuid === name);
  if (!name || !node) return [];
  const own = path("nodes", node.uuid);
  const holds = fleet.holds.value.get(node.uuid) ?? [];
  const verbs = verbsFrom(new Set([node.provision_state])).map(
    (target) => [verb(target), () => openVerb(node, target)] as [string, () => void],
  );
  const acts = [
    ["Hold", () => openHold({ own, name, holds })],
    ...(holds.length ? [["Lift hold of", () => openLift({ own, name, holds })]] : []),
    [node.maintenance ? "End maintenance of" : "Maintenance of", () => openMaintenance(node)],
    ...POWER_ACTS.map((act) => [verb(act[0]), () => openPower(node, act)]),
  ] as [string, () => void][];
  return [...verbs.map(entry("verb", name)), ...acts.map(entry("act", name))];
}

function saveView() {
  const name = decodeURIComponent(location.hash.slice(1));
  set({ views: { ...prefs.value.views, [name]: location.hash } });
  say(`Saved: ${name}`);
}

function Palette() {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  // A page opened cold knows no nodes, and is still reading them.
  useEffect(() => void followFleet(), []);
  void fleet.tick.value;
  const found = entries(words);
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
        placeholder="Pages, nodes, verbs"
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
  ["Ctrl-K  :", "find pages, nodes, verbs"],
  ["/", "filter or search"],
  ["g then f r b e v s d", "pages"],
  ["j k ↑ ↓ Home End", "row"],
  ["x Shift-↓ Ctrl-A", "select"],
  ["Enter  Esc", "open; close or clear"],
  ["c  y", "copy the page or the row as curl, copy the address"],
  ["1 – 9  w l", "tab of a node; its run, its log"],
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
    </ActForm>
  );
}

// No part of its own that is loaded late: what is typed after its key is for the palette.
export const openPalette = () => show(() => <Palette />);

export const openHelp = () => show(() => <Help />);
