/** A table of machines that are enrolled: created, checked, and taken further, some at a time. */
import { signal, type Signal } from "@preact/signals";
import { answered, Fault, get, keeper, passing, type sendChange, sleep, UUIDS_AT_ONCE } from "../wire/api";
import { type Json } from "../wire/json";
import { type Check, examine, flat, isThere, ofBmc, patchOf, requestOf, setPorts, whenFree } from "./machine";
import { path } from "./route";
import {
  bmcOf,
  type Goal,
  GOALS,
  type Identity,
  know,
  type Known,
  macsOf,
  nobody,
  sameAs,
  type Values,
} from "./sheet";

/** A row of the table. */
export interface Machine {
  /** of its node: chosen here, so that a lost answer leaves no doubt */
  uuid: string;
  /** its place in the table as it was read */
  at: number;
  values: Values;
  /** what the user has typed instead of the table's, "" for nothing */
  corrected: Values;
  goal: Goal;
  /**
   * `ready` to begin, `wrong`: not before it is corrected, `left`: the user leaves it out, `cleaning`:
   * the service goes on alone
   */
  stage: "ready" | "wrong" | "left" | "waiting" | "busy" | "cleaning" | "done" | "failed" | "discarded";
  /** what is done, or wrong */
  text: string;
  /** enrolled although another machine is known by the same */
  allowed: boolean;
  /** the user has confirmed that its disks are erased */
  erases: boolean;
  /** true once the request that makes the node was sent */
  tried: boolean;
  made: boolean;
  /** fields that the service was asked to give the node */
  sent: Json | null;
  ports: Map<string, string>;
  checks: Check[];
  /** the provision state that was read last */
  state: string;
}

/** How machines are enrolled. */
export interface Way {
  /** of rows that name none */
  driver: string;
  /** driver_info of a machine */
  infoOf: (values: Values) => Json;
  /** what a machine lacks or has wrong; "" if it has all */
  faultOf: (values: Values) => string;
}

const PAUSE_MS = 1000;
const AT_ONCE = 8;
const STATES = "uuid,provision_state,target_provision_state,last_error,power_state";
const RANK: Record<string, number> = { enroll: 0, "clean failed": 0.5, available: 2 };
const rank = (state: string) => RANK[state] ?? 1;
const goalRank = (goal: Goal) => GOALS.indexOf(goal);
const DOES: Record<string, string> = { manage: "The BMC is verified.", provide: "It is cleaned." };

/** @returns the verb that leads from a state to a goal, undefined if there is none */
function next(state: string, goal: Goal): string | undefined {
  if (state === "enroll" || (state === "clean failed" && goal === "manage")) return "manage";
  return state === "manageable" || state === "clean failed" ? "provide" : undefined;
}

/** @returns values with what the user has typed instead */
const withCorrected = (values: Values, corrected: Values): Values =>
  Object.fromEntries(Object.entries({ ...values, ...corrected }).filter(([, value]) => value.trim()));

/** @returns a row of which nothing is known */
const fresh = (): Machine => ({
  uuid: randomUuid(),
  at: 0,
  values: {},
  corrected: {},
  goal: "enroll",
  stage: "ready",
  text: "",
  allowed: false,
  erases: false,
  tried: false,
  made: false,
  sent: null,
  ports: new Map(),
  checks: [],
  state: "",
});

/** @returns a random UUID, also without TLS */
function randomUuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** A table of machines, and the work on it. Passwords are in its memory alone. */
export class Enrolling {
  /** A signal for each row, so that a row is drawn alone. */
  rows = signal([] as Signal<Machine>[]);
  /** Moves when the stage of a row has changed. */
  moved = signal(0);
  known = nobody();
  #way: Way = { driver: "", infoOf: () => ({}), faultOf: () => "" };
  #keep = keeper();
  #queue: Signal<Machine>[] = [];
  #running = 0;
  #stopped = false;
  /** Rows whose node a conductor works on, and what continues them. */
  #watched = new Map<Signal<Machine>, (node: Json) => void>();

  /**
   * Take the rows of a table. A row that is known by its place keeps what the user has corrected.
   * @param from the place of the first one
   */
  load(values: Values[], goalOf: (values: Values) => Goal, from = 0) {
    const known = new Map(this.rows.peek().map((row) => [row.peek().at, row]));
    this.rows.value = values.map((one, index) => {
      const at = from + index;
      const row = known.get(at);
      if (!row) return signal({ ...fresh(), at, values: one, goal: goalOf(one) });
      const { corrected, stage, tried } = row.peek();
      if (tried || !["ready", "wrong", "left"].includes(stage)) return row;
      const all = withCorrected(one, corrected);
      this.put(row, {
        values: all,
        goal: goalOf(all),
        ...(stage === "wrong" && { stage: "ready", text: "" }),
      });
      return row;
    });
  }

  put(row: Signal<Machine>, change: Partial<Machine>) {
    const { stage } = row.value;
    row.value = { ...row.value, ...change };
    if (row.value.stage !== stage) this.moved.value += 1;
  }

  identity({ values }: Machine): Identity {
    return { name: values.name ?? "", macs: macsOf(values.mac), bmc: bmcOf(this.#way.infoOf(values)) };
  }

  /** Replace values of a row; it is judged again. */
  correct(row: Signal<Machine>, typed: Values) {
    const { values, corrected } = row.value;
    const names = Object.keys({ ...values, ...typed });
    const changed = names.filter((name) => (values[name] ?? "") !== (typed[name] ?? ""));
    const all = { ...corrected, ...Object.fromEntries(changed.map((name) => [name, typed[name] ?? ""])) };
    this.put(row, { values: withCorrected(values, all), corrected: all, stage: "ready", text: "" });
    this.judge();
  }

  /** Find rows that lack something, or that exist: as another machine, or further up in the table. */
  judge(way: Way = this.#way, known: Known = this.known) {
    this.#way = way;
    this.known = known;
    const above = nobody();
    this.rows.value.forEach((row, at) => {
      const machine = row.value;
      const identity = this.identity(machine);
      if (machine.stage === "ready" || machine.stage === "wrong") {
        const same =
          machine.made || machine.allowed ? "" : sameAs(identity, known) || sameAs(identity, above);
        const text = way.faultOf(machine.values) || (same && `${same}.`);
        this.put(row, { stage: text ? "wrong" : "ready", text });
      }
      if (machine.stage !== "left" && machine.stage !== "discarded")
        know(identity, `Row ${at + 1} of this table`, above);
    });
  }

  /**
   * Set how far a row goes; one that is there already is done.
   * @param alone this row, not all
   */
  aim(row: Signal<Machine>, goal: Goal, alone = false) {
    const { stage, state, corrected } = row.value;
    const { goal: _, ...others } = corrected;
    if (["waiting", "busy", "cleaning", "discarded"].includes(stage)) return;
    const further = stage === "done" && goalRank(goal) > rank(state);
    const now = alone ? { ...others, goal } : others;
    this.put(row, { goal, corrected: now, ...(further && { stage: "ready", text: "" }) });
  }

  /** Begin a row, or each that is ready. */
  start(rows: Signal<Machine>[] = this.rows.value.filter((row) => row.value.stage === "ready")) {
    for (const row of rows)
      this.put(row, { stage: "waiting", text: "", erases: row.value.goal === "available" });
    this.#queue.push(...rows);
    this.#pump();
  }

  /** Begin a row once more; one that erases what it did not before has to be confirmed. */
  again(row: Signal<Machine>) {
    const { goal, erases } = row.value;
    if (goal === "available" && !erases)
      this.put(row, { stage: "ready", text: "This erases its disks: type the number of nodes first." });
    else this.start([row]);
  }

  /** Begin no further row; what is created stays. */
  stop() {
    this.#stopped = true;
    this.#queue = [];
    for (const end of this.#watched.values()) end({ gone: true });
    this.#watched.clear();
  }

  /** Send a change, none after the end: a node that is on its way is not erased behind the user's back. */
  #send = (change: Parameters<typeof sendChange>[0]) => {
    const goesOn = () => {
      if (this.#stopped) throw new Fault("The table is closed.");
    };
    goesOn();
    return this.#keep({ ...change, goesOn });
  };

  async discard(row: Signal<Machine>) {
    const { made, tried, uuid } = row.value;
    this.put(row, { stage: "busy", text: made ? "The node is deleted." : "" });
    try {
      if (made || tried) await this.#send({ method: "DELETE", path: path("nodes", uuid) });
    } catch (error) {
      if ((error as Fault).status !== 404)
        return this.put(row, { stage: "failed", text: (error as Fault).message });
    }
    this.put(row, { stage: "discarded", text: "", made: false });
    this.judge();
  }

  #pump() {
    while (this.#running < AT_ONCE && this.#queue.length && !this.#stopped) {
      const row = this.#queue.shift() as Signal<Machine>;
      let holds = true;
      const free = () => {
        if (holds) this.#running -= 1;
        holds = false;
        this.#pump();
      };
      this.#running += 1;
      void this.#enroll(row, free).finally(free);
    }
  }

  async #enroll(row: Signal<Machine>, free: () => void) {
    try {
      this.put(row, { stage: "busy", text: "The node is created.", checks: [] });
      await this.#make(row);
      if (this.#stopped) return;
      this.put(row, { text: "The BMC is checked." });
      const failed = await this.#check(row);
      if (this.#stopped) return;
      if (failed) return this.put(row, { stage: "failed", text: failed });
      await this.#take(row, free);
      this.put(row, { stage: "done", text: "" });
    } catch (error) {
      if (this.#stopped) return;
      const { message, status } = error as Fault;
      this.put(row, { stage: "failed", text: status === undefined ? String(error) : message });
    }
  }

  /** Make the node, or make it like the row, with its ports. */
  async #make(row: Signal<Machine>) {
    const { uuid, values, tried, made, sent } = row.value;
    const own = path("nodes", uuid);
    const { name, resource_class, driver = this.#way.driver } = values;
    const fields = { name, resource_class, driver, driver_info: this.#way.infoOf(values) };
    // The answer of the first request may have been lost.
    if (made || (tried && (await isThere(own)))) await this.#correct(row, own, sent ?? {}, fields);
    else {
      this.put(row, { tried: true, sent: fields });
      try {
        await this.#send(requestOf(null, { uuid, ...fields }));
      } catch (error) {
        if (answered(error as Fault)) this.put(row, { tried: false });
        throw error;
      }
    }
    this.put(row, { made: true });
    await setPorts(this.#send, uuid, macsOf(values.mac), row.value.ports);
  }

  /** Give a node what its row has now and had not when it was made. */
  async #correct(row: Signal<Machine>, own: string, sent: Json, fields: Json) {
    if (JSON.stringify(flat(sent)) === JSON.stringify(flat(fields))) return;
    const { body: now, tag } = await get(own);
    const body = patchOf(sent, fields, now);
    if (body.length) await this.#send({ method: "PATCH", path: own, body, tag });
    this.put(row, { sent: fields });
  }

  /** @returns what keeps the machine from being managed, "" if nothing does */
  async #check(row: Signal<Machine>): Promise<string> {
    let checks: Check[];
    try {
      checks = await examine(
        row.value.uuid,
        (text) => this.put(row, { text }),
        () => this.#stopped,
      );
    } catch (error) {
      // Without the doctor, or the right to ask it, the verification finds out.
      if ([403, 404].includes((error as Fault).status)) return "";
      throw error;
    }
    this.put(row, { checks });
    const failed = checks.find((check) => check.status === "failed" && ofBmc(check));
    return failed ? [failed.text, failed.do].filter(Boolean).join(" ") : "";
  }

  /** Take the machine as far as its row says. */
  async #take(row: Signal<Machine>, free: () => void) {
    const own = path("nodes", row.value.uuid);
    let { body: node } = await get(`${own}?fields=${STATES}`);
    if (node.target_provision_state) node = await this.#settled(row);
    for (;;) {
      const { provision_state: state } = node;
      this.put(row, { state, text: "" });
      const { goal } = row.value;
      if (rank(state) >= goalRank(goal)) return;
      const target = next(state, goal);
      if (!target) throw new Fault(`It is in the state ${state}.`);
      const request = { method: "PUT", path: `${own}/states/provision`, body: { target } };
      await whenFree(
        () => this.#send(request),
        (text) => this.put(row, { text }),
        () => this.#stopped,
      );
      this.put(row, { text: DOES[target] ?? "" });
      if (target === "provide") {
        // The conductor limits how many nodes are cleaned at once, and this takes its time.
        this.put(row, { stage: "cleaning" });
        free();
      }
      node = await this.#settled(row);
      const now = node.provision_state;
      this.put(row, { state: now });
      if (now === state || /failed$/.test(now))
        throw new Fault(node.last_error ?? `It is in the state ${now}.`);
    }
  }

  /** @returns the node when no conductor works on it */
  async #settled(row: Signal<Machine>): Promise<Json> {
    if (this.#stopped) throw new Fault("The table is closed.");
    const node = await new Promise<Json>((resolve) => {
      this.#watched.set(row, resolve);
      if (this.#watched.size === 1) void this.#watch();
    });
    if (node.gone) throw new Fault("The node is gone.");
    return node;
  }

  /** Ask for all nodes that conductors work on, by one request. */
  async #watch() {
    while (this.#watched.size) {
      await sleep(PAUSE_MS);
      const rows = [...this.#watched.keys()];
      for (let at = 0; at < rows.length; at += UUIDS_AT_ONCE)
        await this.#look(rows.slice(at, at + UUIDS_AT_ONCE)).catch((fault) => {
          // A service that is away answers later.
          if (!passing(fault)) for (const row of rows) this.#end(row, { gone: true });
        });
    }
  }

  async #look(rows: Signal<Machine>[]) {
    const uuids = rows.map((row) => row.value.uuid);
    const { body } = await get(`/v1/nodes?uuid=${uuids}&fields=${STATES}`);
    const nodes = new Map<string, Json>(body.nodes.map((node: Json) => [node.uuid, node]));
    for (const row of rows) {
      const node = nodes.get(row.value.uuid);
      if (node && node.provision_state !== row.value.state) this.put(row, { state: node.provision_state });
      if (!node) this.#end(row, { gone: true });
      else if (!node.target_provision_state) this.#end(row, node);
    }
  }

  #end(row: Signal<Machine>, node: Json) {
    this.#watched.get(row)?.(node);
    this.#watched.delete(row);
  }
}
