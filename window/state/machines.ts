/**
 * Facts of machines: from their nodes, and from the inventories that their inspections have left. An
 * agent may report anything, so each value is checked.
 */
import { type Json } from "../wire/json";

const text = (value: unknown): string => (typeof value === "string" ? value.trim() : "");

const object = (value: unknown): Json =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};

/** @returns the objects of a list; of anything else none */
export const objects = (value: unknown): Json[] => (Array.isArray(value) ? value.map(object) : []);

const number = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;

const known = (document: Json | null): Json => object(document?.inventory);

/** Whom a machine is known as: what is unknown is "". */
export interface Identity {
  /** manufacturer and model, each once */
  maker: string;
  serial: string;
  /** where it stands, as its owner has noted it */
  rack: string;
  /** the host of its BMC */
  bmc: string;
}

/** @param inventory the answer of its path */
export function identityOf(node: Json | null, inventory: Json | null): Identity {
  const vendor = object(known(inventory).system_vendor);
  const properties = object(node?.properties);
  const manufacturer = text(vendor.manufacturer) || text(properties.vendor);
  const product = text(vendor.product_name) || text(properties.model);
  return {
    maker: product.startsWith(manufacturer) ? product : `${manufacturer} ${product}`.trim(),
    serial: text(vendor.serial_number) || text(properties.serial_number),
    rack: rackOf(node),
    bmc: bmcOf(node?.driver_info),
  };
}

/** @param node with `serial`, which the service has from the inventory */
export const serialOf = (node: Json): string =>
  text(node.serial) || text(object(node.properties).serial_number);

/** @returns where a node stands, as its owner has noted it: a text or a number */
export function rackOf(node: Json | null): string {
  const noted = (value: unknown) => text(typeof value === "number" ? String(value) : value);
  return noted(object(node?.extra).rack) || noted(object(node?.properties).rack);
}

/** A key of `driver_info` with an address or a URL of the BMC, of any driver. */
const ADDRESS = /^[a-z]+_(address|endpoint)$/;

const HOST = /^(?:[a-z+]+:\/\/)?(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#]*?)(?::\d+)?(?:[/?#].*)?$/is;

/**
 * @param info driver_info
 * @returns the host of the BMC, without scheme, login, port and path
 */
export function bmcOf(info: unknown): string {
  const found = Object.entries(object(info)).filter(([name]) => ADDRESS.test(name));
  const address = found.map(([, value]) => text(value)).find(Boolean) ?? "";
  // An IPv6 address without brackets has no port.
  if (/^[\da-f]*:[\da-f:.]*:[\da-f:.]*$/i.test(address)) return address;
  return HOST.exec(address)?.[1] ?? "";
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** @returns a size as makers of disks write it: 1.2 TB */
export function sizeOf(bytes: unknown): string {
  let left = number(bytes);
  if (!left) return "";
  let unit = 0;
  for (; left >= 999.5 && unit < UNITS.length - 1; unit += 1) left /= 1000;
  return `${rounded(left)} ${UNITS[unit]}`;
}

/** @returns two digits behind the point of a small number, none of a large one */
const rounded = (value: number) => String(Number(value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)));

/** @returns a size as makers of memory write it: 384 GiB */
const memoryOf = (megabytes: number | null) =>
  !megabytes ? "" : megabytes < 1024 ? `${megabytes} MiB` : `${rounded(megabytes / 1024)} GiB`;

/** @returns labels and texts; a text that is not known is "" */
export function summaryOf(inventory: Json | null): [string, string][] {
  const { cpu, memory, system_vendor: vendor, boot } = known(inventory);
  const { count, architecture, model_name: model, frequency } = object(cpu);
  const megahertz = number(Number(frequency));
  const speed = megahertz ? `${rounded(megahertz / 1000)} GHz` : "";
  const threads = number(count) ? `${count} threads` : "";
  return [
    ["Processor", [text(model), threads, text(architecture), speed].filter(Boolean).join(", ")],
    ["Memory", memoryOf(number(object(memory).physical_mb))],
    ["Firmware", text(object(object(vendor).firmware).version)],
    ["Boot mode", text(object(boot).current_boot_mode)],
    ["System UUID", text(object(vendor).system_uuid)],
  ];
}

export interface Disk {
  name: string;
  size: string;
  /** NVMe, SSD or HDD; "" if it is not known */
  kind: string;
  model: string;
  serial: string;
}

/** A WWN without a digit but 0 is none. */
const NO_WWN = /^(?:0x|eui\.|naa\.)?0*$/i;

/** @returns each disk once: other paths to it have its WWN, but makers may give many disks one serial number */
export function disksOf(inventory: Json | null): Disk[] {
  const found = new Map<string, Disk>();
  for (const disk of objects(known(inventory).disks)) {
    const name = text(disk.name);
    const serial = text(disk.serial);
    const vendor = text(disk.vendor);
    const model = text(disk.model);
    const wwn = text(disk.wwn);
    const id = NO_WWN.test(wwn) ? `${serial} ${name}` : wwn;
    if (found.has(id)) continue;
    const kind = name.includes("nvme")
      ? "NVMe"
      : ({ true: "HDD", false: "SSD" }[String(disk.rotational)] ?? "");
    found.set(id, {
      name,
      size: sizeOf(disk.size),
      kind,
      model: model.startsWith(vendor) ? model : `${vendor} ${model}`.trim(),
      serial,
    });
  }
  return [...found.values()];
}

export interface Card {
  name: string;
  address: string;
  /** `up` or `down`, and the speed */
  link: string;
  /** the switch and its port */
  neighbour: string;
  ip: string;
  /** whether the machine boots from it; null: the node has no port for it */
  pxe: boolean | null;
}

/**
 * @param inventory the answer of its path
 * @param ports of the node
 * @returns each network card once, by its address
 */
export function cardsOf(inventory: Json | null, ports: Json[]): Card[] {
  const found = new Map<string, Card>();
  const heard = object(object(inventory?.plugin_data).parsed_lldp);
  for (const card of objects(known(inventory).interfaces)) {
    const address = text(card.mac_address).toLowerCase();
    if (!address || found.has(address)) continue;
    const name = text(card.name);
    const link = { true: "up", false: "down" }[String(card.has_carrier)] ?? "";
    found.set(address, {
      name,
      address,
      link: [link, speedOf(card.speed_mbps)].filter(Boolean).join(", "),
      neighbour: neighbourOf(object(heard[name])),
      ip: text(card.ipv4_address) || text(card.ipv6_address),
      pxe: null,
    });
  }
  for (const port of ports) {
    const address = text(port.address).toLowerCase();
    const card = found.get(address) ?? {
      name: text(port.name),
      address,
      link: "",
      neighbour: "",
      ip: "",
      pxe: null,
    };
    const { switch_info: info, switch_id: id, port_id } = object(port.local_link_connection);
    card.pxe = !!port.pxe_enabled;
    card.neighbour ||= [text(info) || text(id), text(port_id)].filter(Boolean).join(" ");
    found.set(address, card);
  }
  return [...found.values()];
}

function speedOf(megabits: unknown): string {
  const speed = number(megabits);
  if (!speed) return "";
  return speed < 1000 ? `${speed} Mb/s` : `${rounded(speed / 1000)} Gb/s`;
}

/** @param frame what a switch has told by LLDP */
const neighbourOf = (frame: Json): string =>
  [text(frame.switch_system_name) || text(frame.switch_chassis_id), text(frame.switch_port_id)]
    .filter(Boolean)
    .join(" ");
