/** The dialog that enrolls a machine: its identity, and the properties of its driver. */
import { useRef, useState } from "preact/hooks";
import { examine, requestOf, setPorts } from "../state/machine";
import { go, path } from "../state/route";
import { type Answer, type Fault, keeper, sendChange } from "../wire/api";
import { type Json } from "../wire/json";
import { close } from "./dialog";
import { Field, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { openMachines } from "./openers";
import { lacking, PropertyFields } from "./properties";
import { type Check, Checks, useDocument } from "./read";
import { bdi, nodeAddress } from "./text";
import { done, say } from "./toasts";
import { nameOf } from "./words";

/** Texts of the form; the last one is that of a port. */
const IDENTITY = ["name", "resource_class", "address"] as const;
type Identity = Record<(typeof IDENTITY)[number], string>;
const BLANK: Identity = { name: "", resource_class: "", address: "" };

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
  const send = useRef(keeper());
  const ported = useRef(new Map() as Map<string, string>);
  const drivers = useDocument("/v1/drivers");
  const names = (drivers.body?.drivers ?? []).map((one: Json) => one.name);
  const driver = chosen || names[0];
  const properties = useDocument(driver ? path("drivers", driver, "properties", "detail") : null);
  const { address, ...fields } = identity;
  const request = requestOf(made?.uuid ?? null, { ...fields, driver, driver_info: info });
  const addPort = ({ uuid }: Json) => setPorts(send.current, uuid, address ? [address] : [], ported.current);
  const onEnrolled = ({ body }: Answer) => {
    addPort(body).catch((fault: Fault) =>
      say(`The port was refused: ${fault.message}`, { to: location.hash, failed: true }),
    );
    go(nodeAddress(body));
    void done(`Enroll ${nameOf(body)}`, "The node is enrolled.", { about: path("nodes", body.uuid) });
  };
  // With the keys of the checks: after a lost answer, a node that they have made is not made again.
  const sending = useSend(request, onEnrolled, undefined, send.current);
  const look = async () => {
    setCheck({ busy: true, fault: null, checks: null });
    try {
      const { body } = await send.current(request);
      setMade(body);
      await addPort(body);
      setCheck({ busy: false, fault: null, checks: await examine(body.uuid) });
    } catch (error) {
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
        {made ? (
          <button type="button" onClick={discard}>
            Discard
          </button>
        ) : (
          <button type="button" onClick={openMachines}>
            Many machines…
          </button>
        )}
        <button type="button" disabled={!can} onClick={look}>
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
