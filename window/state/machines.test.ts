import { describe, expect, it, test } from "vitest";
import { bmcOf, cardsOf, disksOf, identityOf, rackOf, sizeOf, summaryOf } from "./machines";

const VENDOR = { manufacturer: "Dell", product_name: "PowerEdge R640", serial_number: "2M2201" };

const answer = (inventory: unknown, plugin_data: unknown = {}) => ({ inventory, plugin_data });

describe("the identity of a machine", () => {
  it("comes from its inventory before its properties", () => {
    const node = { properties: { vendor: "HPE", model: "DL360", serial_number: "old" } };
    expect(identityOf(node, answer({ system_vendor: VENDOR }))).toMatchObject({
      maker: "Dell PowerEdge R640",
      serial: "2M2201",
    });
    expect(identityOf(node, null)).toMatchObject({ maker: "HPE DL360", serial: "old" });
  });

  it("names the maker once", () => {
    const vendor = { manufacturer: "Dell", product_name: "Dell R640" };
    expect(identityOf(null, answer({ system_vendor: vendor })).maker).toBe("Dell R640");
  });

  it.each([
    ["https://root:secret@10.0.3.7:8443/redfish/v1?x=1", "10.0.3.7"],
    ["https://[fd00::7]:8443", "[fd00::7]"],
    ["bmc-7.example.org", "bmc-7.example.org"],
    ["bmc-7.example.org:8000", "bmc-7.example.org"],
    ["10.0.3.7", "10.0.3.7"],
    ["fd00::7", "fd00::7"],
    ["root:secret@bmc-7", "bmc-7"],
    [7, ""],
    ["", ""],
  ])("has of the address %s the host %s", (redfish_address, bmc) => {
    expect(identityOf({ driver_info: { redfish_address } }, null).bmc).toBe(bmc);
  });

  it("has the rack that its owner has noted", () => {
    expect(identityOf({ extra: { rack: "r02" }, properties: { rack: "r01" } }, null).rack).toBe("r02");
    expect(identityOf({ extra: { rack: { a: 1 } }, properties: { rack: "r01" } }, null).rack).toBe("r01");
  });
});

describe("sizes", () => {
  it.each([
    [1_200_000_000_000, "1.2 TB"],
    [960_197_124_096, "960 GB"],
    [999_999_999_999, "1 TB"],
    [512, "512 B"],
    [0, ""],
    [-1, ""],
    ["1", ""],
    [Number.NaN, ""],
  ])("of %s bytes is %s", (bytes, size) => expect(sizeOf(bytes)).toBe(size));
});

describe("the summary of an inventory", () => {
  it("is in words", () => {
    const found = summaryOf(
      answer({
        cpu: { count: 64, architecture: "x86_64", model_name: "Xeon 6130", frequency: "2100.0" },
        memory: { physical_mb: 393_216 },
        system_vendor: { ...VENDOR, firmware: { version: "2.19" } },
        boot: { current_boot_mode: "uefi" },
      }),
    );
    expect(found).toEqual([
      ["Processor", "Xeon 6130, 64 threads, x86_64, 2.1 GHz"],
      ["Memory", "384 GiB"],
      ["Firmware", "2.19"],
      ["Boot mode", "uefi"],
      ["System UUID", ""],
    ]);
  });

  it.each([
    null,
    {},
    answer(null),
    answer(7),
    answer({ cpu: [], memory: "x", system_vendor: 1, boot: null }),
  ])("of %j is empty", (document) => {
    expect(summaryOf(document).every(([, text]) => text === "")).toBe(true);
    expect(disksOf(document)).toEqual([]);
    expect(cardsOf(document, [])).toEqual([]);
  });
});

describe("disks", () => {
  it("are shown once each", () => {
    const disks = [
      {
        name: "/dev/sda",
        size: 480_000_000_000,
        serial: "S1",
        rotational: false,
        model: "PM883",
        vendor: "Samsung",
      },
      { name: "/dev/sda", serial: "S1" },
      { name: "/dev/nvme0n1", size: 1_600_000_000_000, wwn: "eui.1" },
      { name: "/dev/nvme9n9", wwn: "eui.1" },
      { name: "/dev/sdc", rotational: true },
      7,
    ];
    expect(disksOf(answer({ disks }))).toEqual([
      { name: "/dev/sda", size: "480 GB", kind: "SSD", model: "Samsung PM883", serial: "S1" },
      { name: "/dev/nvme0n1", size: "1.6 TB", kind: "NVMe", model: "", serial: "" },
      { name: "/dev/sdc", size: "", kind: "HDD", model: "", serial: "" },
      { name: "", size: "", kind: "", model: "", serial: "" },
    ]);
  });
});

test("disks with one serial number are two, unless they have one WWN", () => {
  const names = (...disks: object[]) => disksOf(answer({ disks })).map(({ name }) => name);
  const [one, other] = [
    { name: "/dev/sda", serial: "0000" },
    { name: "/dev/sdb", serial: "0000" },
  ];
  expect(names(one, other)).toEqual(["/dev/sda", "/dev/sdb"]);
  expect(names({ ...one, wwn: "0x5000" }, { ...other, wwn: "0x5001" })).toEqual(["/dev/sda", "/dev/sdb"]);
  expect(names({ ...one, wwn: "0x5000" }, { ...other, wwn: "0x5000" })).toEqual(["/dev/sda"]);
  expect(names({ ...one, wwn: "eui.0000" }, { ...other, wwn: "eui.0000" })).toEqual(["/dev/sda", "/dev/sdb"]);
});

test("a rack is a text or a number, and nothing else", () => {
  expect([rackOf({ extra: { rack: "r1" } }), rackOf({ extra: { rack: 7 } })]).toEqual(["r1", "7"]);
  expect(rackOf({ extra: {}, properties: { rack: 8 } })).toBe("8");
  for (const extra of [null, undefined, {}, { rack: null }, { rack: { a: 1 } }, { rack: ["r1"] }, "rack"])
    expect(rackOf({ extra })).toBe("");
});

test("the host of the BMC is found in the address of any driver", () => {
  expect(bmcOf({ ipmi_target_address: "0x20", ilo_address: "10.0.3.7" })).toBe("10.0.3.7");
  expect(bmcOf({ redfish_address: "https://u:******@bmc-7.example:8443/redfish/v1" })).toBe("bmc-7.example");
  for (const info of [{}, null, undefined, "x", { ipmi_address: 7 }]) expect(bmcOf(info)).toBe("");
});

describe("network cards", () => {
  it("are shown once each, with what the switch and the ports say", () => {
    const interfaces = [
      {
        name: "eth0",
        mac_address: "52:54:00:AA:00:01",
        has_carrier: true,
        speed_mbps: 25_000,
        ipv4_address: "10.0.0.1",
      },
      { name: "bond0", mac_address: "52:54:00:aa:00:01" },
      { name: "eth1", mac_address: "52:54:00:aa:00:02", has_carrier: false },
    ];
    const parsed_lldp = { eth0: { switch_system_name: "leaf-1", switch_port_id: "Ethernet1/7" }, eth1: 7 };
    const ports = [
      { address: "52:54:00:aa:00:01", pxe_enabled: true, local_link_connection: { switch_info: "other" } },
      {
        address: "52:54:00:aa:00:02",
        pxe_enabled: false,
        local_link_connection: { switch_id: "aa", port_id: "9" },
      },
      { address: "52:54:00:aa:00:03", name: "spare", pxe_enabled: true },
    ];
    expect(cardsOf(answer({ interfaces }, { parsed_lldp }), ports)).toEqual([
      {
        name: "eth0",
        address: "52:54:00:aa:00:01",
        link: "up, 25 Gb/s",
        neighbour: "leaf-1 Ethernet1/7",
        ip: "10.0.0.1",
        pxe: true,
      },
      { name: "eth1", address: "52:54:00:aa:00:02", link: "down", neighbour: "aa 9", ip: "", pxe: false },
      { name: "spare", address: "52:54:00:aa:00:03", link: "", neighbour: "", ip: "", pxe: true },
    ]);
  });
});
