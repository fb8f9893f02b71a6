/** The tab Console: the serial console, and the orders that the node's driver carries out. */
import { useState } from "preact/hooks";
import { type Answers } from "../wire/documents";
import { type Json } from "../wire/json";
import { Select, typed } from "./fields";
import { openSimple } from "./openers";
import { FaultBox, JsonOf, Skeleton, useDocument, wrong } from "./read";
import { orderOf, Refusable } from "./refusable";
import { shownValue } from "./review";
import { bdi } from "./text";
import { copy } from "./toasts";
import { visible } from "./words";

/** Orders with fixed targets: label, path below the node, body of a target, what the node does. */
const FIXED: Record<string, Order> = {
  boot_mode: ["Boot mode", "states/boot_mode", (target) => ({ target }), "boots in the mode %"],
  secure_boot: ["Secure boot", "states/secure_boot", (target) => ({ target }), "boots with secure boot %"],
  console: ["Console", "states/console", (enabled) => ({ enabled }), "has its console switched %"],
  boot_device: [
    "Next boot",
    "management/boot_device",
    (boot_device) => ({ boot_device }),
    "boots from % once",
  ],
  nmi: ["Interrupt", "management/inject_nmi", () => ({}), "is interrupted, which may stop its system"],
};

export type Order = [string, string, (target: any) => Json, string];

const LACKS = "UnsupportedDriverExtension";

function Bmc({ own, why, turn, ...props }: any) {
  // The machine itself is asked again after own orders, not after each event.
  const [orders, setOrders] = useState(0);
  const reload = () => (setOrders((last) => last + 1), props.reload());
  const devices = useDocument(`${own}/management/boot_device/supported`).body;
  const states = useDocument(`${own}/states`, { again: turn });
  const fixed = (why.orders as Json[]).filter(({ order }) => order in FIXED && order !== "console");
  const lacks = (order: string) => orderOf(why, order)?.refused?.code === LACKS;
  const device = useDocument(lacks("boot_device") ? null : `${own}/management/boot_device`, {
    again: orders,
  });
  const drives = useDocument(lacks("vmedia") ? null : `${own}/vmedia`, { again: orders });
  const { boot_mode, secure_boot } = states.body ?? {};
  const { boot_device, persistent } = device.body ?? {};
  const now = { boot_mode, secure_boot, boot_device } as Record<string, any>;
  const vmedia = orderOf(why, "vmedia");
  const lamps = orderOf(why, "indicators");
  const name = why.name ?? why.node;
  return (
    <>
      <dl class="tree orders">
        {fixed.map((order) => (
          <Targets
            order={order}
            own={own}
            name={name}
            reload={reload}
            now={now[order.order]}
            note={
              order.order === "boot_device" && boot_device
                ? persistent
                  ? "at each start"
                  : "at the next start"
                : ""
            }
            targets={
              { boot_device: devices?.supported_boot_devices ?? [], nmi: ["send NMI"] }[
                order.order as "nmi"
              ] ?? order.targets
            }
          />
        ))}
        {vmedia && <Media order={vmedia} own={own} name={name} reload={reload} />}
        {lamps && <Lamps refused={lamps.refused} own={own} reload={reload} turn={orders} />}
      </dl>
      {wrong(states.fault, `${own}/states`)} {wrong(drives.fault, `${own}/vmedia`)}
      <JsonOf path={`${own}/states`} body={states.body} />
      {!lacks("vmedia") && <JsonOf path={`${own}/vmedia`} body={drives.body} />}
    </>
  );
}

export function Console(props: any) {
  return (
    <>
      <section aria-label="Serial console">
        <h2>Serial console</h2>
        <Serial {...props} />
      </section>
      <section aria-label="BMC">
        <h2>Boot, media and lamps</h2>
        <Bmc {...props} />
      </section>
    </>
  );
}

/** Whether the serial console is on, and where it is reached. */
function Serial({ own, why, turn, ...props }: any) {
  const [orders, setOrders] = useState(0);
  const order = orderOf(why, "console");
  const from = order && order.refused?.code !== LACKS ? `${own}/states/console` : null;
  const { body, fault } = useDocument(from, { again: `${orders} ${turn}` });
  const reload = () => (setOrders((last) => last + 1), props.reload());
  const { console_enabled: on, console_info: info } = (body ?? {}) as Partial<
    Answers["/v1/nodes/{ident}/states/console"]
  >;
  const { type, url } = info ?? {};
  return (
    <>
      {fault && <FaultBox fault={fault} path={from ?? ""} />}{" "}
      {from && !fault && !body && <Skeleton rows={2} />}
      <dl class="tree orders">
        {order && (
          <Targets
            order={order}
            own={own}
            name={why.name ?? why.node}
            reload={reload}
            now={on}
            targets={order.targets}
          />
        )}
        {on && (
          <>
            <dt>Type</dt>
            <dd>{bdi(type ?? "unknown")}</dd>
            <dt>Address</dt>
            <dd>
              {url ? (
                <>
                  <code>{bdi(url)}</code>{" "}
                  <button class="quiet" onClick={() => copy(url)}>
                    copy the address
                  </button>
                </>
              ) : (
                "The driver names no address."
              )}
            </dd>
          </>
        )}
      </dl>
    </>
  );
}

/** @param props `now`: the target that holds at present */
function Targets({ order, own, name, targets, reload, now, note }: any) {
  const [label, place, body, does] = FIXED[order.order] as Order;
  const word = (target: any) => ({ true: "on", false: "off" })[String(target)] ?? target;
  const open = (target: any) =>
    openSimple({
      title: `${label}: ${word(target)}`,
      kind: "none",
      method: "PUT",
      path: `${own}/${place}`,
      says: `${name} ${does.replace("%", word(target))}.`,
      body: body(target),
      button: `${label}: ${word(target)}`,
      of: own,
      reload,
    });
  return (
    <>
      <dt>{label}</dt>
      <dd class="actions">
        {targets.map((target: any) => (
          <Refusable
            refused={order.refused}
            now={target === now}
            onClick={() => open(target)}
          >{`${word(target)}…`}</Refusable>
        ))}
        {note && <span class="small">{note}</span>}
        {order.refused && <span class="small">{bdi(order.refused.text)}</span>}
      </dd>
    </>
  );
}

/** The indicator lamps: a driver without them says so. */
function Lamps({ refused, own, reload, turn }: any) {
  const from = refused?.code === LACKS ? null : `${own}/management/indicators`;
  const { body, fault } = useDocument(from, { again: turn });
  return (
    <>
      <dt>Lamps</dt>
      <dd>
        {body?.indicators.map((lamp: Json) => (
          <Lamp key={lamp.name} lamp={lamp} refused={refused} own={own} reload={reload} turn={turn} />
        ))}
        {body?.indicators.length === 0 && <span class="small">The machine has none.</span>}
        {fault && <FaultBox fault={fault} path={from ?? ""} />}
        {refused && <span class="small">{bdi(refused.text)}</span>}
      </dd>
    </>
  );
}

/** One lamp: whether it is lit, and buttons for its states. */
function Lamp({ lamp, refused, own, reload, turn }: any) {
  const at = `${own}/management/indicators/${encodeURIComponent(lamp.name)}`;
  const { body } = useDocument(at, { again: turn });
  const fixed = lamp.readonly ? { text: `The machine alone switches ${lamp.name}.` } : null;
  const open = (state: string) =>
    openSimple({
      title: `Lamp ${lamp.name}: ${state}`,
      kind: "none",
      method: "PUT",
      path: at,
      body: { state },
      button: `Lamp: ${state}`,
      of: own,
      reload,
    });
  return (
    <div class="actions" role="group" aria-label={`Lamp ${visible(lamp.name)}`}>
      {bdi(lamp.name)} <strong>{body ? visible(body.state ?? "unknown") : "…"}</strong>
      {lamp.states.map((state: string) => (
        <Refusable
          refused={refused ?? fixed}
          now={body?.state === state}
          onClick={() => open(state)}
        >{`${state}…`}</Refusable>
      ))}
    </div>
  );
}

/** The virtual drives: an image is put in by its address. */
function Media({ order, own, name, reload }: any) {
  const [url, setUrl] = useState("");
  const [kind, setKind] = useState(order.targets[0]);
  const insert = () =>
    openSimple({
      title: `Insert into the ${kind}`,
      kind: "none",
      method: "POST",
      path: `${own}/vmedia`,
      says: `${name} gets ${shownValue("image_url", url)} in its ${kind}.`,
      body: { device_type: kind, image_url: url },
      button: "Insert",
      of: own,
      reload,
    });
  const eject = () =>
    openSimple({
      title: "Eject all virtual drives",
      kind: "none",
      method: "DELETE",
      path: `${own}/vmedia`,
      says: `${name} loses the images in all its virtual drives.`,
      button: "Eject",
      of: own,
      reload,
    });
  const missing = url ? null : { text: "Enter the address of an image first." };
  return (
    <>
      <dt>Virtual media</dt>
      <dd class="actions">
        <Select label="Drive" value={kind} onChange={setKind} choices={order.targets} />
        <input aria-label="Address of an image" placeholder="https://…/image.iso" onInput={typed(setUrl)} />
        <Refusable refused={order.refused ?? missing} onClick={insert}>
          Insert…
        </Refusable>
        <Refusable refused={order.refused} onClick={eject}>
          Eject…
        </Refusable>
        {order.refused && <span class="small">{bdi(order.refused.text)}</span>}
      </dd>
    </>
  );
}
