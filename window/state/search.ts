/** Nodes found by the service: by serial numbers, MAC addresses, BMC hosts and other texts. */
import { useEffect, useState } from "preact/hooks";
import { get, type Fault } from "../wire/api";

export interface Hit {
  uuid: string;
  name: string | null;
  /** where the value stands: `extra.rack`, `inventory.disks.serial` */
  field: string;
  value: string;
  provision_state: string;
}

export interface Found {
  words: string;
  hits: Hit[];
  more: boolean;
}

const NOTHING: Found = { words: "", hits: [], more: false };
const SHORTEST = 2;
const LONGEST = 64;
/** Rest of the keys after which the service is asked. */
const REST_MS = 120;
/** True after the service has answered that it has no search. */
let absent = false;

/** @returns the hits of these words; nothing until the service has answered */
export function useSearch(words: string, limit: number): Found {
  const wanted = words.trim().replace(/\s+/g, " ");
  const [found, setFound] = useState(NOTHING);
  useEffect(() => {
    if (absent || wanted.length < SHORTEST || wanted.length > LONGEST) return undefined;
    const abort = new AbortController();
    const query = new URLSearchParams({ q: wanted, limit: String(limit) });
    const timer = setTimeout(
      () =>
        get(`/v1/search?${query}`, abort.signal).then(
          ({ body }) => setFound({ words: wanted, ...body }),
          (fault: Fault) => (absent ||= fault.status === 404), // What is in memory is found all the same.
        ),
      REST_MS,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [wanted, limit]);
  return found.words === wanted ? found : NOTHING;
}

const NAMES: Record<string, string> = {
  "inventory.system_vendor.serial_number": "serial number",
  "inventory.system_vendor.product_name": "model",
  "inventory.system_vendor.manufacturer": "vendor",
  "inventory.disks.serial": "disk",
  "inventory.interfaces.mac_address": "MAC",
  "port.address": "MAC",
  "driver_info.redfish_address": "BMC",
  "driver_info.ipmi_address": "BMC",
};

/** @returns the words for a hit: `serial number SN000777` */
export const hitText = ({ field, value }: Hit): string =>
  `${NAMES[field] ?? field.replace(/^(extra|properties)\./, "").replaceAll("_", " ")} ${value}`;
