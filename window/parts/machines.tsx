/** The dialog that enrolls many machines: a table from a spreadsheet or a file. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Enrolling, type Machine } from "../state/enrolling";
import { readKnown } from "../state/machine";
import { path } from "../state/route";
import {
  cells,
  type Field as Kind,
  fieldsOf,
  type Goal,
  goalOf,
  GOALS,
  guess,
  hasHead,
  ofDriver,
  textOf,
  type Values,
  valuesOf,
} from "../state/sheet";
import { small } from "../state/settings";
import { type Fault } from "../wire/api";
import { type Json } from "../wire/json";
import { Confirm, NUMBER } from "./confirm";
import { asking, guard, leave } from "./dialog";
import { Checkbox, Select, typed } from "./fields";
import { ActForm } from "./form";
import { openEnroll } from "./openers";
import { lacking, PropertyFields, useProperties, valueOf } from "./properties";
import { useDocument } from "./read";
import { Rows } from "./rows";
import { bdi } from "./text";
import { many, visible } from "./words";

const LONGEST_HEAD = 40;

/** A table as it was read, with the field of each column. */
interface Sheet {
  rows: string[][];
  /** whether the first row has the names of the columns */
  head: boolean;
  /** whether the user has said so */
  headChosen: boolean;
  columns: string[];
}

const bodyOf = ({ rows, head }: Sheet) => (head ? rows.slice(1) : rows);

/**
 * Find the field of each column by the name of the column, or by its values.
 * @param chosenHead what the user has said of the first row
 */
function sheetOf(rows: string[][], fields: Kind[], chosenHead?: boolean): Sheet {
  const head = chosenHead ?? hasHead(rows, fields);
  const columns = guess(head ? (rows[0] ?? []) : null, head ? rows.slice(1) : rows, fields);
  return { rows, head, headChosen: chosenHead !== undefined, columns };
}

/** How many rows of a stage there are, in this order. */
const STAGES: [Machine["stage"], string][] = [
  ["ready", "ready"],
  ["wrong", "to correct"],
  ["left", "left out"],
  ["waiting", "waiting"],
  ["busy", "under way"],
  ["cleaning", "cleaning"],
  ["done", "done"],
  ["failed", "failed"],
  ["discarded", "discarded"],
];

const mapped = (all: Json, to: (value: any, name: string) => unknown): Json =>
  Object.fromEntries(Object.entries(all).map(([name, value]) => [name, to(value, name)]));

export function Machines() {
  const [work] = useState(() => new Enrolling());
  const [chosen, setChosen] = useState("");
  const [info, setInfo] = useState({} as Json);
  const [goal, setGoal] = useState<Goal>("enroll");
  const [sheet, setSheet] = useState(null as Sheet | null);
  const [fault, setFault] = useState("");
  /** The list of the machines that exist already. */
  const [existing, setExisting] = useState("reading" as "reading" | "read" | Fault);
  /** The number of machines to be erased that the user has confirmed. */
  const [confirmed, setConfirmed] = useState(0);
  const drivers = useDocument("/v1/drivers");
  const names = (drivers.body?.drivers ?? []).map((one: Json) => one.name);
  const driver = chosen || names[0];
  const properties = useDocument(driver ? path("drivers", driver, "properties", "detail") : null);
  const fields = useMemo(() => fieldsOf(properties.body ?? {}), [properties.body]);
  // A row may have the value that is missing here.
  const common = useMemo(
    () => mapped(properties.body ?? {}, (one) => ({ ...one, required: false })),
    [properties.body],
  );
  void work.moved.value;
  const rows = work.rows.value;
  const named = [...new Set(rows.map(({ value: { values } }) => values.driver ?? ""))].sort();
  const others = useProperties(named.filter((name) => name !== driver && names.includes(name)));
  const way = useMemo(() => {
    const aboutOf = ({ driver: own = driver }: Values) =>
      own === driver ? (properties.body ?? {}) : others.get(own);
    const infoOf = (values: Values): Json => {
      const about = aboutOf(values) ?? {};
      return {
        ...ofDriver(info, about),
        ...mapped(ofDriver(values, about), (text, name) => valueOf(text, about[name].group)),
      };
    };
    const faultOf = (values: Values) => {
      const { driver: own } = values;
      const about = aboutOf(values);
      if (own && !names.includes(own)) return `Driver: ${own} is not one of ${names.join(", ")}.`;
      if (!about) return `The properties of the driver ${own} ${about === null ? "cannot be" : "are"} read.`;
      const [missing] = lacking(about, infoOf(values));
      if (missing) return `${missing} is missing.`;
      const { goal: word } = values;
      return word && !goalOf(word) ? `How far: ${word} is not one of ${GOALS.join(", ")}.` : "";
    };
    return { driver, infoOf, faultOf };
  }, [properties.body, driver, info, others, names.join()]);

  useEffect(() => {
    const abort = new AbortController();
    readKnown(abort.signal).then(
      (found) => (work.judge(undefined, found), setExisting("read")),
      (error) => abort.signal.aborted || setExisting(error),
    );
    return () => (abort.abort(), work.stop());
  }, []);
  useLeaving(work);
  useEffect(() => work.judge(way), [way]);

  const show = (next: Sheet) => {
    setSheet(next);
    const rows = bodyOf(next).map((row) => valuesOf(row, next.columns, fields));
    work.load(rows, (values) => goalOf(values.goal ?? "") ?? goal, next.head ? 1 : 0);
    work.judge(way);
  };
  const read = async (source: string | File) => {
    try {
      const text = typeof source === "string" ? source : textOf(new Uint8Array(await source.arrayBuffer()));
      const rows = cells(text);
      setFault(rows.length ? "" : "The table is empty.");
      if (rows.length) show(sheetOf(rows, fields));
    } catch (error) {
      setFault((error as Error).message);
    }
  };
  // Another driver has other columns.
  useEffect(() => {
    if (!sheet || !properties.body) return;
    const { rows, head, headChosen } = sheet;
    show(sheetOf(rows, fields, headChosen ? head : undefined));
  }, [fields]);

  const count = (stage: Machine["stage"]) => rows.filter((row) => row.value.stage === stage).length;
  const ready = rows.filter((row) => row.value.stage === "ready");
  const started = rows.some((row) => row.value.tried || row.value.stage === "waiting");
  const erased = ready.filter((row) => row.value.goal === "available").length;
  useEffect(() => setConfirmed(0), [erased]);
  const reading = existing === "reading" || !properties.body;
  // Rows that have begun, and none that could begin now: there is nothing to send.
  const idle = !rows.length || (started && !ready.length);
  const act = {
    title: "Enroll many machines",
    fault: drivers.fault ?? properties.fault,
    button: `Enroll ${many(ready.length, "machine")}`,
    ready: ready.length > 0 && !reading && (!erased || confirmed === erased),
    send: idle ? undefined : () => (setConfirmed(0), work.start()),
    more: !sheet && (
      <button type="button" onClick={openEnroll}>
        One machine…
      </button>
    ),
  };
  const setGoalOfAll = (next: Goal) => {
    setGoal(next);
    for (const row of rows) work.aim(row, next);
  };
  return (
    <ActForm {...act}>
      <div class="machines">
        {!sheet && <Source onTable={(source) => void read(source)} fields={fields} />}
        <div class="form-grid">
          <Select
            label="Driver of all"
            value={driver}
            onChange={(next) => (setChosen(next), setInfo({}))}
            choices={started ? [driver] : names}
          />
          <Select label="How far" value={goal} onChange={setGoalOfAll as any} choices={GOALS} />
        </div>
        {fault && (
          <p class="wrong" role="alert">
            {fault}
          </p>
        )}
        {properties.body && (
          <details>
            <summary>The same for all machines{started && " that have not begun"}</summary>
            <PropertyFields properties={common} info={info} onInput={setInfo} open={[]} />
          </details>
        )}
        {sheet && (
          <>
            <Columns sheet={sheet} fields={fields} fixed={started} onChange={show} />
            {existing === "reading" && <p role="status">Reading the machines that exist already.</p>}
            {typeof existing === "object" && (
              <p class="wrong">
                The machines that exist already could not be read, so their rows are not marked:{" "}
                {bdi(existing.message)}
              </p>
            )}
            <Rows work={work} rows={rows} fields={fields} columns={sheet.columns} />
            <p role="status">
              {STAGES.map(([stage, word]) => [count(stage), word] as const)
                .filter(([number]) => number)
                .map((counted) => counted.join(" "))
                .join(", ")}
            </p>
            {started ? (
              <p class="small">
                When this page closes, created nodes stay: those that are not done stay in the state enroll.
                Waiting rows do not begin. The table and its passwords are only in the memory of this page.
              </p>
            ) : (
              <p class="small">Nothing is created yet. The table is only in the memory of this page.</p>
            )}
            {erased > 0 && (
              <Confirm
                key={erased}
                kind="name"
                name={String(erased)}
                what={NUMBER}
                does="cleans, and so erases, the disks of"
                on={many(erased, "machine")}
                onSure={(sure) => setConfirmed(sure ? erased : 0)}
              />
            )}
          </>
        )}
        {asking.value && <Leaving />}
      </div>
    </ActForm>
  );
}

/** Asks once before a table is lost. */
function Leaving() {
  const stay = useRef(null as HTMLButtonElement | null);
  useEffect(() => stay.current?.focus(), []);
  const keep = () => {
    stay.current?.form?.querySelector<HTMLElement>(".cancel")?.focus();
    asking.value = false;
  };
  return (
    <div class="wrong" role="alert">
      <p>Some rows are not done. If you close the table, they are lost, and no further request is sent.</p>
      <p class="actions">
        <button type="button" ref={stay} onClick={keep}>
          Keep the table
        </button>
        <button type="button" class="danger" onClick={leave}>
          Close the table
        </button>
      </p>
    </div>
  );
}

/** Keep a table from being lost by Escape, by a reload, by a press, or by the end of the page. */
function useLeaving(work: Enrolling) {
  useEffect(() => {
    const unfinished = () =>
      work.rows.value.some(({ value }) => !["done", "discarded"].includes(value.stage));
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && unfinished()) event.preventDefault();
    };
    const onLeave = (event: Event) => {
      if (unfinished()) event.preventDefault();
    };
    const unguard = guard(unfinished);
    addEventListener("keydown", onKey, { capture: true });
    addEventListener("beforeunload", onLeave);
    return () => {
      unguard();
      removeEventListener("keydown", onKey, { capture: true });
      removeEventListener("beforeunload", onLeave);
    };
  }, []);
}

/** The fields for a new table. Pasted and dropped tables are read at once and never shown, for their passwords. */
function Source({ onTable, fields }: { onTable: (source: string | File) => void; fields: Kind[] }) {
  const area = useRef(null as HTMLTextAreaElement | null);
  const [typedIn, setTypedIn] = useState(false);
  const onTransfer = (data: DataTransfer | null, event: Event) => {
    event.preventDefault();
    onTable(data?.files[0] ?? data?.getData("text/plain") ?? "");
  };
  const readTyped = () => {
    const text = area.current?.value ?? "";
    if (area.current) area.current.value = "";
    setTypedIn(false);
    onTable(text);
  };
  const named = fields.filter(({ required, secret }) => required || secret).map(({ name }) => name);
  return (
    <>
      <label class="block">
        Rows of a spreadsheet, with tabs, commas or semicolons
        <textarea
          ref={area}
          rows={4}
          autocomplete="off"
          spellcheck={false}
          placeholder="Paste them here"
          onPaste={(event) => onTransfer(event.clipboardData, event)}
          onDrop={(event) => onTransfer(event.dataTransfer, event)}
          onInput={typed((text) => setTypedIn(!!text.trim()))}
        />
      </label>
      <p class="actions">
        {typedIn && (
          <button type="button" onClick={readTyped}>
            Read the table
          </button>
        )}
        <label>
          File{" "}
          <input
            type="file"
            accept=".csv,.tsv,.txt,text/csv,text/plain"
            onChange={({ currentTarget: { files } }) => files?.[0] && onTable(files[0])}
          />
        </label>
      </p>
      <p class="small">
        The first row may name the columns, such as {["name", ...named, "MAC", "class"].join(", ")}.
      </p>
    </>
  );
}

/** The field of each column of the table. */
function Columns({
  sheet,
  fields,
  fixed,
  onChange,
}: {
  sheet: Sheet;
  fields: Kind[];
  fixed: boolean;
  onChange: (sheet: Sheet) => void;
}) {
  const { columns, head, rows } = sheet;
  const choose = (at: number, name: string) => {
    // Only one column can have a field.
    const others = columns.map((other) => (other === name ? "" : other));
    onChange({ ...sheet, columns: others.with(at, name) });
  };
  // A first row that only the user takes for names may contain a password, so it is not shown.
  const named = head && hasHead(rows, fields);
  const title = (at: number) => {
    const name = named ? visible(rows[0]?.[at] ?? "").slice(0, LONGEST_HEAD) : "";
    return name || `column ${at + 1}`;
  };
  const unused = columns.filter((name) => !name).length;
  return (
    <details open={!fixed && !small.value}>
      <summary>Columns{unused > 0 && `, ${unused} left out`}</summary>
      <Checkbox
        label="The first row has the names of the columns"
        on={head}
        onChange={(on) => fixed || onChange(sheetOf(rows, fields, on))}
      />
      <div class="form-grid" role="group" aria-label="Columns">
        {columns.map((column, at) => (
          <Select
            label={title(at)}
            value={column}
            onChange={(name) => choose(at, name)}
            choices={
              fixed
                ? [column || "left out"]
                : [["", "left out"], ...fields.map(({ name, label }) => [name, label] as const)]
            }
          />
        ))}
      </div>
    </details>
  );
}
