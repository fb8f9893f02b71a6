/** The dialog of a batch: its request, its waves, its plan. */
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { go, href, path } from "../state/route";
import { ask, Fault } from "../wire/api";
import { type Json } from "../wire/json";
import { began, Confirm, confirmation, confirmationOf, NUMBER } from "./confirm";
import { Checkbox, Field, type Option, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { Plan } from "./plan";
import { missing, StepsField } from "./steps";
import { bdi } from "./text";
import { erases, HALF, many, nameOf, POWERS, verb, VERB_HINTS, verbChoice, wording } from "./words";

const WAVES: Record<string, (number | string)[]> = {
  "all at once": ["100%"],
  "canary: one, then all": [1, "100%"],
  "canary: one, 10 %, all": [1, "10%", "100%"],
};

const MOST_NAMES = 20;
const LEAVE_OUT = { unfit: "leave out" };

const shortList = (names: string[]) =>
  names.length ? `: ${names.slice(0, MOST_NAMES).join(", ")}${names.length > MOST_NAMES ? " …" : ""}` : "";

/**
 * @param props `nodes`: those of which one can be the first; `named`: some of the nodes, to be shown;
 *   `example`: a node whose steps can be picked
 */
export function BatchDialog({
  of,
  count,
  offered,
  nodes = [],
  named = nodes,
  example,
}: {
  of: { nodes: unknown; expect?: number };
  count: number;
  offered: string[];
  nodes?: Json[];
  named?: Json[];
  example?: string | undefined;
}) {
  const title = `Batch of ${many(count)}`;
  const uuids = nodes.map(({ uuid }) => uuid);
  const [target, setTarget] = useState(offered.length === 1 ? (offered[0] ?? "") : "");
  const [steps, setSteps] = useState({} as Json);
  const [waves, setWaves] = useState(count > 1 ? "canary: one, then all" : "all at once");
  const [concurrency, setConcurrency] = useState(8);
  const [budget, setBudget] = useState(0);
  const [name, setName] = useState("");
  const [canary, setCanary] = useState("");
  const [plan, setPlan] = useState(null as Json | null);
  const [fault, setFault] = useState(null as Fault | null);
  const [sure, setSure] = useState(false);
  const [leave, setLeave] = useState(true);
  const body = {
    ...(canary ? { nodes: [canary, ...uuids.filter((other) => other !== canary)] } : of),
    request: POWERS.includes(target) ? { power: target } : { target, ...steps },
    waves: WAVES[waves],
    concurrency,
    max_failures: budget,
    ...(name && { name }),
  };
  const text = JSON.stringify(body);
  const [planned, setPlanned] = useState("");
  const look = async () => {
    try {
      const { body: found } = await ask("POST", "/v1/batches?plan=true", { body: { ...body, ...LEAVE_OUT } });
      // The API plans the steps of one node.
      const uuid = found.first_wave[0]?.uuid;
      const sample =
        erases(target) &&
        uuid &&
        (await ask("POST", path("nodes", uuid, "plan"), { body: body.request, accepts: [422] }).catch(
          () => null,
        ));
      setPlan((old) => ({ ...found, sample: sample && sample.body, turn: (old?.turn ?? 0) + 1 }));
      setPlanned(text);
      setFault(null);
    } catch (error) {
      setPlan(null);
      setFault(error as Fault);
    }
  };
  useEffect(() => setFault(null), [text]);
  const first = !target ? "Choose a request." : missing(target, steps);
  const fresh = plan && planned === text;
  const leaves = fresh && leave;
  const going: number = leaves ? plan.fit.count : count;
  const all = many(going);
  const out = new Set(leaves ? plan.unfit.nodes.map(({ uuid }: Json) => uuid) : []);
  const kept = ({ uuid }: Json) => !out.has(uuid);
  // The nodes that were shown, so that a fleet that has changed since the plan is refused.
  const asked = leaves ? { ...body, ...LEAVE_OUT, expect_fit: plan.fit.digest } : { expect: count, ...body };
  const sending = useSend({ method: "POST", path: "/v1/batches", body: asked }, (answer) => {
    const own = path("batches", answer.body.uuid);
    go(href(own));
    void began(`${verb(target)} of ${all}`, own, { about: own, says: `The batch of ${all} has begun.` });
  });
  const last = nodes.filter(kept);
  const used = last.filter((node) => node.provision_state === "active").map(nameOf);
  const clean = going === 1 && last.length === 1 && last[0]?.data_state === "clean";
  const kind = confirmationOf(target, used.length > 0, clean);
  const loses = erases(target) || target === "available";
  const changes =
    kind === "name" && loses
      ? `${target === "available" ? "Leaves" : plan?.sample && confirmation(plan.sample, null) === kind ? "Destroys" : "May destroy"} the data on ${all}${shortList(named.filter(kept).map(nameOf))}.`
      : target === "abort"
        ? `Abort ends the runs of ${all}. ${HALF}`
        : used.length && !loses && target !== "power on"
          ? `${verb(target)} interrupts the instances on ${many(used.length)}${shortList(used)}.`
          : "";
  // A confirmation is of the plan that was read and of its nodes, not of those that took their place.
  useLayoutEffect(() => setSure(false), [text, plan, leave]);
  const act = {
    ...sending,
    fault: sending.fault ?? fault,
    ready: !!fresh && (kind === "none" || sure) && going > 0,
    title,
    danger: kind === "name",
    button: fresh ? `${verb(target)} ${all}` : "",
    more: (
      <button type="button" disabled={!!first} onClick={() => look()}>
        Plan
      </button>
    ),
  };
  return (
    <ActForm {...act}>
      <div class="form-grid">
        <Select
          label="Request"
          value={target}
          onChange={(next) => (setTarget(next), setSteps({}))}
          choices={[["", "choose…"], ...offered.map((choice): Option => [choice, verbChoice(choice)])]}
        />
        <Select label="Waves" value={waves} onChange={setWaves} choices={Object.keys(WAVES)} />
        {nodes.length > 1 && waves.startsWith("canary") && (
          <Select
            label="Canary, goes first"
            value={canary}
            onChange={setCanary}
            choices={[
              ["", "the first of the list"],
              ...nodes.map((node): Option => [node.uuid, nameOf(node)]),
            ]}
          />
        )}
        <Field label="Name (optional)" onInput={typed(setName)} />
        {number("At the same time", concurrency, setConcurrency, 1)}
        {number("Failures allowed", budget, setBudget, 0)}
      </div>
      <p role="status">
        {first} {VERB_HINTS[target] && `${verb(target)} ${VERB_HINTS[target]}.`}
        {offered.includes("manage") &&
          !offered.includes("clean") &&
          " To clean, use Manage first; the page of its batch then has the button Clean…"}
      </p>
      <Marked nodes={nodes} />
      <StepsField key={target} node={example} target={target} onChange={setSteps} />
      {fresh && <BatchPlan plan={plan} />}
      {fresh && plan.unfit.count > 0 && (
        <Checkbox
          label={`Leave them out: ${plan.fit.count} can, ${plan.unfit.count} cannot.`}
          on={leave}
          onChange={setLeave}
        />
      )}
      {fresh && changes && (
        <p>
          <strong>{bdi(changes)}</strong>
        </p>
      )}
      {fresh && (
        <Confirm
          key={`${plan.turn} ${leave}`}
          kind={kind}
          name={String(going)}
          what={NUMBER}
          on={all}
          {...(!loses && { does: "interrupts the instances on some of" })}
          onSure={setSure}
        />
      )}
    </ActForm>
  );
}

/** How many of the nodes are retired or protected, and which. */
const Marked = ({ nodes }: { nodes: Json[] }) => (
  <>
    {["retired", "protected"].map((mark) => {
      const names = nodes.filter((node) => node[mark]).map(nameOf);
      return (
        names.length > 0 && (
          <p class="wrong">
            {names.length} of {many(nodes.length)} {names.length === 1 ? "is" : "are"} {mark}
            {bdi(shortList(names))}
          </p>
        )
      );
    })}
  </>
);

const number = (label: string, value: number, put: (value: number) => void, min: number) => (
  <Field label={label} type="number" min={min} value={value} onInput={typed((text) => put(Number(text)))} />
);

function BatchPlan({ plan }: { plan: Json }) {
  const { waves, concurrency, failures_left: left, fit, unfit, first_wave: first, sample } = plan;
  const marked = ["retired", "protected"].filter((mark) => fit[mark].length);
  return (
    <>
      <p role="status">
        {waves.length > 1 && first[0] ? (
          <>
            <strong>{bdi(nameOf(first[0]))} goes first, alone</strong>, then{" "}
            {[...waves.slice(1, -1), `the other ${waves.at(-1)}`].join(", then ")}
          </>
        ) : (
          many(waves[0])
        )}
        , at most {concurrency} at once.
        {left
          ? ` The batch pauses after more than ${many(left, "failure")}.`
          : " The first failure pauses the batch."}
      </p>
      {marked.map((mark) => (
        <p>
          {fit[mark].length} of them are {mark}: {bdi(shortList(fit[mark].map(nameOf)).slice(2))}
        </p>
      ))}
      {unfit.count > 0 && (
        <>
          <p class="wrong">{unfit.count} of them would refuse the request now:</p>
          <ul>
            {unfit.nodes.slice(0, MOST_NAMES).map((node: Json) => (
              <li>
                {bdi(nameOf(node))}: {bdi(wording(node.text, node))}
              </li>
            ))}
          </ul>
        </>
      )}
      {sample?.accepted && (
        <>
          <p>On {bdi(nameOf(first[0]))}:</p> <Plan plan={sample} />
        </>
      )}
    </>
  );
}
