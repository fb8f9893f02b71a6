/** Tables of machines that are pasted or read from a file: cells, columns, and rows that cannot be used. */
import { secret } from "../wire/curl";

/** A table cannot be read. */
export class SheetFault extends Error {}

/** Most rows of one table. */
export const MOST_ROWS = 1000;
/** Longest text of one table, in characters. */
const LONGEST = 2_000_000;
const DELIMITERS = ["\t", ",", ";"];

/** @returns the text of a file, which spreadsheets write as UTF-8, UTF-16 or Windows-1252 */
export function textOf(bytes: Uint8Array): string {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/**
 * @param text with tabs, commas or semicolons between cells; a cell in quotes may contain them
 * @returns cells of the rows that are not empty
 * @throws SheetFault
 */
export function cells(text: string): string[][] {
  if (text.length > LONGEST) throw new SheetFault(`The table has more than ${LONGEST} characters.`);
  let body = text.replace(/^\ufeff/, "");
  const named = /^sep=(.)\r?\n/i.exec(body);
  if (named) body = body.slice(named[0].length);
  const found = split(body, named?.[1] ?? delimiterOf(body));
  const rows = found.filter((row) => row.some((cell) => cell.trim()));
  if (rows.length > MOST_ROWS + 1)
    throw new SheetFault(`The table has ${rows.length} rows. Paste at most ${MOST_ROWS} at once.`);
  return rows;
}

/** @returns what stands most often between cells of the first row */
function delimiterOf(text: string): string {
  const first =
    text
      .trimStart()
      .replace(/"[^"]*"/g, "")
      .split(/[\r\n]/, 1)[0] ?? "";
  const counts = DELIMITERS.map((sign) => first.split(sign).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))] as string;
}

function split(text: string, delimiter: string): string[][] {
  const rows: string[][] = [[]];
  let cell = "";
  let at = 0;
  const endCell = () => {
    (rows[rows.length - 1] as string[]).push(cell);
    cell = "";
  };
  while (at < text.length) {
    const sign = text[at] as string;
    if (sign === '"' && !cell.trim()) {
      [cell, at] = quoted(text, at + 1, rows.length);
      continue;
    }
    at += 1;
    if (sign === delimiter) endCell();
    else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && text[at] === "\n") at += 1;
      endCell();
      rows.push([]);
    } else cell += sign;
  }
  endCell();
  return rows;
}

/** @returns the text up to the quote that ends it, and the place behind that quote */
function quoted(text: string, from: number, row: number): [string, number] {
  let cell = "";
  for (let at = from; ;) {
    const end = text.indexOf('"', at);
    if (end < 0) throw new SheetFault(`A quote that begins in row ${row} has no end.`);
    cell += text.slice(at, end);
    if (text[end + 1] !== '"') return [cell, end + 1];
    cell += '"';
    at = end + 2;
  }
}

// -- Columns: what a cell is a value of.

/** Something that a column can be. */
export interface Field {
  /** `name`, `resource_class`, `mac`, `driver`, `goal`, or a key of driver_info */
  name: string;
  label: string;
  secret: boolean;
  required: boolean;
}

/** What is read here of `GET /v1/drivers/NAME/properties/detail`. */
type Properties = Record<string, { order: number; required: boolean; secret: boolean }>;

const own = (name: string, label: string): Field => ({ name, label, secret: false, required: false });
export const OWN = [
  own("name", "Name"),
  own("resource_class", "Resource class"),
  own("mac", "MAC address"),
  own("driver", "Driver"),
  own("goal", "How far"),
];

/** Other words for fields; those with a star are the end of a key of the driver. */
const WORDS: Record<string, string> = {
  name: "name node nodename hostname host server machine",
  resource_class: "class resourceclass flavor flavour",
  mac: "mac macs macaddress macaddresses nic port pxemac",
  driver: "hardware hardwaretype",
  goal: "goal howfar state target until",
  "*_address": "address ip ipaddress bmc bmcaddress bmcip bmchost bmcurl url ilo idrac ipmi redfish oob",
  "*_username": "user username login account bmcuser bmcusername",
  "*_password": "password pass passwd pw secret bmcpassword bmcpass",
  "*_port": "bmcport ipmiport",
  "*_system_id": "system systemid systemuri",
  "*_verify_ca": "verify verifyca ca",
};

/** @returns the fields of machines of a driver */
export const fieldsOf = (properties: Properties): Field[] => [
  ...OWN,
  ...Object.keys(properties)
    .sort((a, b) => properties[a]!.order - properties[b]!.order)
    .map((name) => ({
      name,
      label: name,
      secret: properties[name]!.secret || secret.test(name),
      required: properties[name]!.required,
    })),
];

const plain = (text: string) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

/** @returns the field that a head names, undefined without one */
function fieldOf(head: string, fields: Field[]): Field | undefined {
  const word = plain(head);
  if (!word) return undefined;
  const same = fields.find((field) => isName(head, [field]));
  if (same) return same;
  for (const [field, words] of Object.entries(WORDS)) {
    if (!words.split(" ").includes(word)) continue;
    const end = field.slice(1);
    const found = fields.filter(({ name }) => (field.startsWith("*") ? name.endsWith(end) : name === field));
    // `redfish_address`, not the address of something else that the driver knows.
    const [first] = found.sort(
      (a, b) => Number(b.required) - Number(a.required) || a.name.length - b.name.length,
    );
    if (first) return first;
  }
  return fields.find(({ name }) => plain(name.replace(/^[a-z]+_/, "")) === word);
}

/** The end of a key that says where the BMC is, or how to log in, in any driver. */
const LOGIN = /^[a-z]+(_(?:address|username|password))$/;

/**
 * @param properties of the driver of a machine
 * @returns its values by the keys of this driver: `redfish_address` is `ipmi_address`; others are left out
 */
export function ofDriver<Value>(
  values: Record<string, Value>,
  properties: Properties,
): Record<string, Value> {
  const keyOf = (name: string): string | undefined => {
    const end = LOGIN.exec(name)?.[1];
    const others = Object.keys(properties).filter((key) => end && LOGIN.exec(key)?.[1] === end);
    const [first] = others.sort(
      (a, b) =>
        Number(properties[b]!.required) - Number(properties[a]!.required) ||
        properties[a]!.order - properties[b]!.order,
    );
    return Object.hasOwn(properties, name) ? name : first;
  };
  const found = Object.entries(values).map(([name, value]) => [keyOf(name), value] as const);
  return Object.fromEntries(found.filter(([name]) => name));
}

const MAC = /^([\da-f]{2}[:-]){5}[\da-f]{2}$|^[\da-f]{4}\.[\da-f]{4}\.[\da-f]{4}$|^[\da-f]{12}$/i;
const ADDRESS = /^https?:\/\/|^\d+\.\d+\.\d+\.\d+(:\d+)?$|^\[?[\da-f]*:[\da-f:]+\]?$/i;

/** @returns whether a cell is the whole name of a field */
const isName = (cell: string, fields: Field[]) =>
  fields.some(({ name, label }) => plain(cell) === plain(name) || plain(cell) === plain(label));

/**
 * One cell may be another word for a field by chance, as users and passwords often are: a machine that is
 * taken for names would be lost, and its password be the title of a column.
 * @returns whether the first row has the names of columns
 */
export function hasHead(rows: string[][], fields: Field[]): boolean {
  const first = (rows[0] ?? []).map((cell) => cell.trim()).filter(Boolean);
  if (first.some((cell) => MAC.test(cell) || ADDRESS.test(cell))) return false;
  if (first.some((cell) => isName(cell, fields))) return true;
  const named = first.flatMap((cell) => fieldOf(cell, fields) ?? []);
  const isLogin = ({ name, secret: hidden }: Field) => hidden || name.endsWith("_username");
  return named.length >= Math.min(2, first.length) && !named.every(isLogin);
}

/**
 * @param head names of columns; null: the columns are guessed by their values
 * @returns the name of the field for each column, "" for a column that is left out
 */
export function guess(head: string[] | null, rows: string[][], fields: Field[]): string[] {
  const width = Math.max(0, ...rows.map((row) => row.length), head?.length ?? 0);
  const taken = new Set([""]);
  return Array.from({ length: width }, (_, at) => {
    const name = head ? fieldOf(head[at] ?? "", fields)?.name : byValues(rows, at, fields);
    if (!name || taken.has(name)) return "";
    taken.add(name);
    return name;
  });
}

function byValues(rows: string[][], at: number, fields: Field[]): string | undefined {
  const values = rows.map((row) => (row[at] ?? "").trim()).filter(Boolean);
  if (!values.length) return undefined;
  if (values.every((value) => MAC.test(value))) return "mac";
  return values.every((value) => ADDRESS.test(value)) ? fieldOf("address", fields)?.name : undefined;
}

// -- Machines of a table, and those that cannot be enrolled.

/** Values of a machine by the name of their field; an empty one is left out. */
export type Values = Record<string, string>;

/** @returns the values of a row; those of secrets keep their blanks */
export function valuesOf(row: string[], columns: string[], fields: Field[]): Values {
  const hidden = new Set(fields.filter((field) => field.secret).map(({ name }) => name));
  const found: Values = {};
  columns.forEach((name, at) => {
    const cell = row[at] ?? "";
    const value = hidden.has(name) ? cell : cell.trim();
    if (name && value.trim()) found[name] = value;
  });
  return found;
}

/** How far machines go; what is typed for it. */
export const GOALS = ["enroll", "manage", "available"] as const;
export type Goal = (typeof GOALS)[number];
const GOAL_WORDS: Record<string, Goal> = { manageable: "manage", managed: "manage", provide: "available" };

/** @returns the goal that a cell names, null for other words */
export function goalOf(text: string): Goal | null {
  const word = text.trim().toLowerCase();
  return GOALS.find((goal) => goal === word) ?? new Map(Object.entries(GOAL_WORDS)).get(word) ?? null;
}

/** @returns MAC addresses of a cell as the service writes them */
export const macsOf = (text: string = "") =>
  text
    .split(/[\s,;|]+/)
    .filter(Boolean)
    .map((mac) => {
      const digits = mac.toLowerCase().replace(/[^\da-f]/g, "");
      return MAC.test(mac) ? (digits.match(/../g) as string[]).join(":") : mac.toLowerCase();
    });

/**
 * @param info driver_info
 * @returns host, port and system of its BMC, "" without an address
 */
export function bmcOf(info: Record<string, any>): string {
  const name = Object.keys(info).find((key) => /^[a-z]+_address$/.test(key) && info[key]);
  if (!name) return "";
  const driver = name.replace("_address", "");
  const address = String(info[name]).trim().toLowerCase();
  const host = address
    .replace(/^(https?):\/\//, "")
    .replace(/\/.*$/, "")
    .replace(/\.?(:443|:623)?$/, "")
    .replace(/^\[|\]$/g, "");
  const more = ["port", "system_id", "target_address"].map((part) => info[`${driver}_${part}`] ?? "");
  if (more[0] === "623" || more[0] === 623) more[0] = "";
  return [host, ...more].join(" ").trim();
}

/** What a machine is known by. */
export interface Identity {
  name: string;
  macs: string[];
  bmc: string;
}

/** Machines that exist, or stand further up, by what they are known by. */
export interface Known {
  names: Map<string, string>;
  macs: Map<string, string>;
  bmcs: Map<string, string>;
}

export const nobody = (): Known => ({ names: new Map(), macs: new Map(), bmcs: new Map() });

/** @returns which machine has the same name, MAC address or BMC, "" without one */
export function sameAs({ name, macs, bmc }: Identity, known: Known): string {
  const mac = macs.find((one) => known.macs.has(one));
  if (name && known.names.has(name.toLowerCase()))
    return `${known.names.get(name.toLowerCase())} has this name`;
  if (mac) return `${known.macs.get(mac)} has the MAC address ${mac}`;
  return bmc && known.bmcs.has(bmc) ? `${known.bmcs.get(bmc)} has this BMC` : "";
}

/** Note a machine. */
export function know({ name, macs, bmc }: Identity, as: string, known: Known) {
  if (name && !known.names.has(name.toLowerCase())) known.names.set(name.toLowerCase(), as);
  for (const mac of macs) if (!known.macs.has(mac)) known.macs.set(mac, as);
  if (bmc && !known.bmcs.has(bmc)) known.bmcs.set(bmc, as);
}
