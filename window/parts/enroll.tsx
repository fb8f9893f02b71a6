/** The dialog that enrolls a machine: its identity, and the properties of its driver. */
import { useRef, useState } from "preact/hooks";
import { go, path } from "../state/route";
import { answered, type Fault, get, key, sendChange } from "../wire/api";
import { type Json } from "../wire/json";
import { close } from "./dialog";
import { Field, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { lacking, PropertyFields } from "./properties";
import { type Check, Checks, useDocument } from "./read";
import { bdi, nodeAddress } from "./text";
import { say } from "./toasts";
import { nameOf } from "./words";

/** Texts of the form; the last one is that of a port. */
const IDENTITY = ["name", "resource_class", "address"] as const;
type Identity = Record<(typeof IDENTITY)[number], string>;
const BLANK: Identity = { name: "", resource_class: "", address: "" };

/** @returns the request that makes the node, or makes it like the form */
function requestOf(made: Json | null, driver: string, identity: Identity, info: Json) {
  const { name, resource_class } = identity;
  const texts = Object.entries({ name, resource_class }).filter(([, value]) => value);
  const body = { driver, ...Object.fromEntries(texts), driver_info: info } as Json;
  if (!made) return { method: "POST", path: "/v1/nodes", body };
  const operations = Object.entries(body).map(([field, value]) => ({ op: "add", path: `/${field}`, value }));
  return { method: "PATCH", path: path("nodes", made.uuid), body: operations };
}

export function Enroll() {
  const [chosen, setChosen] = useState("");
  const [identity, setIdentity] = useState(BLANK);
  // Passwords are in the memory of this dialog alone.
  const [info, setInfo] = useState({} as Json);
  const [made, setMade] = useState(null as Json | null);
  const [check, setCheck] = useState({
    busy: false,
    fault: null as Fault | null,
    checks: null as Check[] | null,
  });
  const once = useRef(key());
  const ported = useRef("");
  const drivers = useDocument("/v1/drivers");
  const names = (drivers.body?.drivers ?? []).map((one: Json) => one.name);
  const driver = chosen || names[0];
  const properties = useDocument(driver ? path("drivers", driver, "properties", "detail") : null);
  const request = requestOf(made, driver, identity, info);
  const addPort = async ({ uuid }: Json) => {
    const { address } = identity;
    if (!address || ported.current === address) return;
    await sendChange({ method: "POST", path: "/v1/ports", body: { node_uuid: uuid, address } });
    ported.current = address;
  };
  const sending = useSend(request, ({ body }) => {
    addPort(body).catch((fault: Fault) =>
      say(`The port was refused: ${fault.message}`, { to: location.hash, failed: true }),
    );
    go(nodeAddress(body));
    say("The node is enrolled.");
  });
  const examine = async () => {
    setCheck({ busy: true, fault: null, checks: null });
    try {
      const { body } = await sendChange({ ...request, key: once.current });
      once.current = key();
      setMade(body);
      await addPort(body);
      const found = await get(`/v1/doctor?node=${body.uuid}`);
      const checks = found.body.checks.filter((one: Check) => one.where?.startsWith("node "));
      setCheck({ busy: false, fault: null, checks });
    } catch (error) {
      if (answered(error as Fault)) once.current = key();
      setCheck({ busy: false, fault: error as Fault, checks: null });
    }
  };
  const discard = async () => {
    try {
      await sendChange({ method: "DELETE", path: path("nodes", made?.uuid) });
      close();
      say("The node is discarded.");
    } catch (error) {
      setCheck({ ...check, fault: error as Fault });
    }
  };
  const can = !!driver && !!properties.body && !lacking(properties.body, info).length && !check.busy;
  const text = (name: keyof Identity, label: string, placeholder = "") => (
    <Field
      label={label}
      autocomplete="off"
      placeholder={placeholder}
      onInput={typed((value) => setIdentity({ ...identity, [name]: value }))}
    />
  );
  const act = {
    ...sending,
    fault: sending.fault ?? check.fault ?? drivers.fault ?? properties.fault,
    title: "Enroll a machine",
    button: "Enroll",
    ready: can,
    more: (
      <>
        {made && (
          <button type="button" onClick={discard}>
            Discard
          </button>
        )}
        <button type="button" disabled={!can} onClick={examine}>
          {check.checks ? "Check again" : "Check the BMC"}
        </button>
      </>
    ),
  };
  return (
    <ActForm {...act}>
      <div class="form-grid">
        {text("name", "Name")}
        <Select
          label="Driver"
          value={driver}
          onChange={(next) => (setChosen(next), setInfo({}))}
          choices={names}
        />
        {text("resource_class", "Resource class")}
        {text("address", "MAC address", "52:54:00:aa:bb:cc")}
      </div>
      {properties.body && <PropertyFields properties={properties.body} info={info} onInput={setInfo} />}
      {made && (
        <p role="status">{bdi(nameOf(made))} is in the state enroll, for these checks. Discard removes it.</p>
      )}
      {check.busy && <p role="status">The service looks for the BMC.</p>}
      {check.checks && <Checks checks={check.checks} />}
    </ActForm>
  );
}
