/** The hardware of a machine as facts: what the machine is made of, each part once. */
import { useState } from "preact/hooks";
import { cardsOf, disksOf, identityOf, objects, summaryOf } from "../state/machines";
import { href } from "../state/route";
import { type Answers } from "../wire/documents";
import { type Json } from "../wire/json";
import { Facts, JsonOf, List, Skeleton, useDocument, wrong } from "./read";
import { Ago, bdi, Health } from "./text";
import { many } from "./words";

type Read = ReturnType<typeof useDocument>;
type Answer<Path extends keyof Answers> = Answers[Path] | null;

/** @param props `inventory`: its answer, if the machine was inspected */
export function Hardware({
  own,
  node,
  inventory,
  turn,
}: {
  own: string;
  node: Json | null;
  inventory: Read;
  turn: number;
}) {
  const ports = useDocument(`${own}/ports?detail=true`, { again: turn });
  const firmware = useDocument(`${own}/firmware`, { again: turn });
  const bios = useDocument(`${own}/bios`, { again: turn });
  if (!node) return <Skeleton />;
  const { body, fault } = inventory;
  const unread = !node.inspection_finished_at || fault?.status === 404;
  if (!unread && !body) return wrong(fault, `${own}/inventory`) ?? <Skeleton />;
  const { maker, serial } = identityOf(node, body);
  const disks = disksOf(body);
  const cards = cardsOf(body, ports.body?.ports ?? []);
  const volumes = objects(node.raid_config?.logical_disks);
  return (
    <>
      <WholeHealth node={node} />
      {unread && <p role="status">Not inspected yet.</p>}
      <Facts
        of={[
          ["Machine", maker],
          ["Serial number", serial],
          ...summaryOf(body),
          ["Boot mode", node.boot_mode],
          ["Secure boot", node.secure_boot == null ? "" : node.secure_boot ? "on" : "off"],
          ["Inspected", unread ? null : <Ago at={node.inspection_finished_at} ago />],
        ]}
      />
      {disks.length > 0 && (
        <Part
          title={many(disks.length, "disk")}
          label="Disks"
          head={["Disk", "Size", "Kind", "Model", "Serial number"]}
          rows={disks.map((disk) => [disk.name, disk.size, disk.kind, disk.model, disk.serial])}
        />
      )}
      {volumes.length > 0 && (
        <Part
          title={many(volumes.length, "RAID volume")}
          label="RAID volumes"
          head={["Volume", "Level", "Size", "Controller"]}
          rows={volumes.map((volume: Json) => [
            bdi(volume.volume_name ?? volume.name),
            bdi(volume.raid_level),
            bdi(`${volume.size_gb} GB`),
            bdi(volume.controller),
          ])}
        />
      )}
      {cards.length > 0 && (
        <Part
          title={many(cards.length, "network card")}
          label="Network cards"
          head={["Card", "MAC", "Link", "Switch and port", "Address", "PXE"]}
          rows={cards.map((card) => [
            card.name,
            <code>{bdi(card.address)}</code>,
            card.link,
            card.neighbour,
            card.ip,
            card.pxe === null ? "no port" : card.pxe ? "yes" : "no",
          ])}
        />
      )}
      <Firmware found={firmware.body} />
      <Bios found={bios.body} />
      {body && <JsonOf path={`${own}/inventory`} body={body} />}
    </>
  );
}

/** What the BMC says of the machine as a whole, and where others like it are. */
const WholeHealth = ({ node: { health } }: { node: Json }) =>
  health && (
    <p>
      Health: <Health value={health} />{" "}
      {health !== "OK" && <a href={href("/v1/nodes", { health })}>all machines with this health</a>}
    </p>
  );

/** A list below its heading. */
const Part = ({ title, ...list }: { title: string; label: string; head: string[]; rows: any[][] }) => (
  <>
    <h2>{title}</h2>
    <List {...list} />
  </>
);

function Firmware({ found }: { found: Answer<"/v1/nodes/{ident}/firmware"> }) {
  if (!found?.firmware.length) return null;
  return (
    <Part
      title="Firmware"
      label="Firmware"
      head={["Component", "Version", "At first", "Model", "Read"]}
      rows={found.firmware.map((part) => [
        part.component,
        part.current_version,
        part.initial_version !== part.current_version && part.initial_version,
        [part.vendor, part.model].filter(Boolean).join(" "),
        <Ago at={part.updated_at ?? part.created_at} ago />,
      ])}
    />
  );
}

/** Settings of the BIOS: hundreds, so they are unfolded. */
function Bios({ found }: { found: Answer<"/v1/nodes/{ident}/bios"> }) {
  const [open, setOpen] = useState(false);
  if (!found?.bios.length) return null;
  return (
    <details class="json" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{many(found.bios.length, "BIOS setting")}</summary>
      {open && (
        <List
          label="BIOS settings"
          head={["Setting", "Value"]}
          rows={found.bios.map(({ name, value }) => [name, value])}
        />
      )}
    </details>
  );
}
