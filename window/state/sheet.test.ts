import { expect, test } from "vitest";
import {
  bmcOf,
  cells,
  fieldsOf,
  goalOf,
  guess,
  hasHead,
  know,
  macsOf,
  MOST_ROWS,
  nobody,
  ofDriver,
  sameAs,
  SheetFault,
  textOf,
  valuesOf,
} from "./sheet";

const about = (order: number, required = false, secret = false) => ({ order, required, secret });
const REDFISH = fieldsOf({
  deploy_kernel: about(9),
  redfish_address: about(0, true),
  redfish_username: about(2),
  redfish_password: about(3, false, true),
  redfish_system_id: about(1),
});
const IPMI = fieldsOf({
  ipmi_address: about(0, true),
  ipmi_username: about(1),
  ipmi_password: about(2, false, true),
  ipmi_port: about(3),
});
const names = (text: string, fields = REDFISH) => guess(cells(text)[0]!, cells(text).slice(1), fields);

test.each([
  ["tabs", "name\taddress\nr1\t10.0.0.1\n"],
  ["commas", "name,address\nr1,10.0.0.1"],
  ["semicolons", "name;address\r\nr1;10.0.0.1\r\n"],
  ["old line ends", "name,address\rr1,10.0.0.1\r"],
  ["a named delimiter", "sep=|\r\nname|address\r\nr1|10.0.0.1"],
  ["a byte order mark", "\ufeffname,address\nr1,10.0.0.1"],
  ["quotes", '"name" , "address"\n"r1","10.0.0.1"'],
  ["empty rows", "\n\nname,address\n ,\n\nr1,10.0.0.1\n\n"],
])("a table with %s has its cells", (_, text) => {
  expect(cells(text).map((row) => row.map((cell) => cell.trim()))).toEqual([
    ["name", "address"],
    ["r1", "10.0.0.1"],
  ]);
});

test("a cell in quotes may have delimiters, quotes and line ends", () => {
  expect(cells('a,"x, ""y""\r\nz",c\n"",b"c,"d"e')).toEqual([
    ["a", 'x, "y"\r\nz', "c"],
    ["", 'b"c', "de"],
  ]);
});

test("a delimiter in quotes does not choose the delimiter", () => {
  expect(cells('"a;b;c;d",e\n1,2')).toEqual([
    ["a;b;c;d", "e"],
    ["1", "2"],
  ]);
});

test("a quote without an end, and too many rows, are refused", () => {
  expect(() => cells('a,b\nc,"d')).toThrow("row 2");
  expect(() => cells("x\n".repeat(MOST_ROWS + 2))).toThrow(SheetFault);
  expect(cells("x\n".repeat(MOST_ROWS + 1))).toHaveLength(MOST_ROWS + 1);
  expect(() => cells("x".repeat(2_000_001))).toThrow(SheetFault);
});

test("files of spreadsheets are decoded", () => {
  expect(textOf(new TextEncoder().encode("\ufeffnäme"))).toBe("näme");
  expect(textOf(new Uint8Array([0xff, 0xfe, 0x6e, 0, 0xe4, 0]))).toBe("nä");
  expect(textOf(new Uint8Array([0xfe, 0xff, 0, 0x6e, 0, 0xe4]))).toBe("nä");
  expect(textOf(new Uint8Array([0x6e, 0xe4]))).toBe("nä");
});

test.each([
  ["Name,Address,User,Password,MAC,Class", REDFISH],
  ["class;MAC address;PASS;login;BMC IP;Host name", REDFISH],
  ["name\tipmi_address\tipmi username\tIPMI-Password\tMACs\tresource_class", IPMI],
])("columns of %s are found in any order", (head, fields) => {
  const found = names(`${head}\n`, fields);
  const driver = fields === IPMI ? "ipmi" : "redfish";
  expect([...found].sort()).toEqual(
    ["mac", "name", `${driver}_address`, `${driver}_password`, `${driver}_username`, "resource_class"].sort(),
  );
});

test("columns of other things are left out, and no field has two columns", () => {
  expect(names("name,asset,host,__proto__,constructor,toString,\n")).toEqual([
    "name",
    "",
    "",
    "",
    "",
    "",
    "",
  ]);
  expect(names("deploy kernel,system id,kernel\n")).toEqual(["deploy_kernel", "redfish_system_id", ""]);
});

test("a table without names has columns by their values", () => {
  const rows = cells("r1,https://10.0.0.1,root,pw,52:54:00:AA:BB:CC\nr2,10.0.0.2,root,pw,525400aabbcd");
  expect(hasHead(rows, REDFISH)).toBe(false);
  expect(guess(null, rows, REDFISH)).toEqual(["", "redfish_address", "", "", "mac"]);
});

test.each([
  ["name,address", true],
  ["name", true],
  ["rack1-01,gpu", false],
  ["user,10.0.0.1", false],
  ["name,rack,height", true],
  ["host;bmc;rack", true],
  ["rack1-01,bmc-01.lab,root,password", false],
  ["rack1-01,bmc-01.lab,user,password", false],
  ["server,bmc-01.lab,root,s3cret", false],
  ["", false],
])("%s is a head: %s", (text, expected) => {
  expect(hasHead(cells(text), REDFISH)).toBe(expected);
});

test("values of a row lose blanks, but for secrets", () => {
  const columns = ["name", "", "redfish_password", "mac"];
  expect(valuesOf([" r1 ", "x", " pw ", "", "more"], columns, REDFISH)).toEqual({
    name: "r1",
    redfish_password: " pw ",
  });
  expect(valuesOf([], columns, REDFISH)).toEqual({});
});

test("how far a machine goes is one of three words", () => {
  expect(["Enroll", "manageable", " provide "].map(goalOf)).toEqual(["enroll", "manage", "available"]);
  expect(["", "active", "constructor", "__proto__"].map(goalOf)).toEqual([null, null, null, null]);
});

test("MAC addresses have one form", () => {
  const same = ["52:54:00:aa:bb:cc", "52-54-00-AA-BB-CC", "5254.00aa.bbcc", "525400AABBCC"];
  expect(same.map((one) => macsOf(one)[0])).toEqual(Array(4).fill("52:54:00:aa:bb:cc"));
  expect(macsOf("525400AABBCC; 52:54:00:aa:bb:cd\n,x")).toEqual([
    "52:54:00:aa:bb:cc",
    "52:54:00:aa:bb:cd",
    "x",
  ]);
  expect(macsOf()).toEqual([]);
});

test("a BMC is its host, port and system", () => {
  const same = ["10.0.0.1", "https://10.0.0.1", "https://10.0.0.1:443/", "HTTPS://10.0.0.1/redfish/v1"];
  expect(new Set(same.map((redfish_address) => bmcOf({ redfish_address })))).toEqual(new Set(["10.0.0.1"]));
  expect(bmcOf({ redfish_address: "https://[fe80::1]:8443" })).toBe("fe80::1]:8443");
  expect(bmcOf({ ipmi_address: "bmc.example.org.", ipmi_port: 623 })).toBe("bmc.example.org");
  expect(bmcOf({ ipmi_address: "10.0.0.1", ipmi_port: "6230" })).toBe("10.0.0.1 6230");
  const system = (id: string) => bmcOf({ redfish_address: "10.0.0.1", redfish_system_id: id });
  expect(system("/redfish/v1/Systems/1")).not.toBe(system("/redfish/v1/Systems/2"));
  expect(bmcOf({ deploy_kernel: "http://10.0.0.1/k" })).toBe("");
});

test("a machine that is known is named with what is the same", () => {
  const known = nobody();
  know({ name: "R1", macs: ["52:54:00:aa:bb:cc"], bmc: "10.0.0.1" }, "r1", known);
  const other = { name: "r2", macs: ["52:54:00:aa:bb:cd"], bmc: "10.0.0.2" };
  expect(sameAs(other, known)).toBe("");
  expect(sameAs({ ...other, name: "r1" }, known)).toBe("r1 has this name");
  expect(sameAs({ ...other, macs: ["x", "52:54:00:aa:bb:cc"] }, known)).toContain("52:54:00:aa:bb:cc");
  expect(sameAs({ ...other, bmc: "10.0.0.1" }, known)).toBe("r1 has this BMC");
  expect(sameAs({ name: "", macs: [], bmc: "" }, known)).toBe("");
});

test("values of a machine with another driver have its keys", () => {
  const ipmi = { ipmi_target_address: about(1), ipmi_address: about(0, true), ipmi_username: about(2) };
  const values = {
    name: "r1",
    redfish_address: "10.0.0.1",
    redfish_username: "root",
    redfish_system_id: "/1",
  };
  expect(ofDriver(values, ipmi)).toEqual({ ipmi_address: "10.0.0.1", ipmi_username: "root" });
  expect(ofDriver({ ipmi_target_address: "0x20" }, { redfish_address: about(0, true) })).toEqual({});
  expect(ofDriver({ constructor: "x", ipmi_username: "a" }, ipmi)).toEqual({ ipmi_username: "a" });
});
