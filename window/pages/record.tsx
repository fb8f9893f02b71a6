/** One erasure record: what it says, whether it is what was signed, and its proof as a file. For print, too. */
import { Facts, List, Skeleton, Tree, useDocument, wrong } from "../parts/read";
import { useReading } from "../parts/reading";
import { bdi, link, nodeLink, Result, wholeStamp } from "../parts/text";
import { Curl } from "../parts/toasts";
import { many, nameOf, stepName, verb, visible } from "../parts/words";
import { path } from "../state/route";
import { curl } from "../wire/curl";
import { type Json } from "../wire/json";
import { check, type Proof, readProof, type Verdict, zip } from "../wire/proof";
import { readBatchOf } from "../parts/history";

/** @param record of a record @returns a sentence */
function summary({ result, disks, not_erased: left, not_known: why, error, level, node }: Json): string {
  const all = `${many(disks.length + left.length, "disk")} of ${nameOf(node)}`;
  if (result === "complete") return `${all} erased, at the level ${level}.`;
  if (result === "partial") return `${left.length} of ${all} NOT erased.`;
  const reason = error ?? why;
  return `The erasure of ${nameOf(node)} ${result === "failed" ? "FAILED" : "is NOT KNOWN"}${reason ? `: ${reason}` : ""}.`;
}

interface Checked {
  proof: Proof;
  verdict: Verdict;
}

export function RecordPage({ uuid }: { uuid: string }) {
  const own = path("erasures", uuid);
  const { found: checked, fault } = useReading(
    async (abort): Promise<Checked> => {
      const proof = await readProof(own, abort);
      return { proof, verdict: await check(uuid, proof) };
    },
    [uuid],
  );
  return (
    <>
      <h1>Erasure record</h1>
      {wrong(fault, own)}
      {checked ? <Record uuid={uuid} {...checked} /> : !fault && <Skeleton />}
    </>
  );
}

/** What the browser says of the signature, before all that the record says. */
function Signature({ verdict, name }: { verdict: Verdict; name: string }) {
  if (verdict.result === "good")
    return (
      <p role="status">
        <span class="result done">✓ signature checked in this browser</span>, with the key {bdi(name)} of the
        service
      </p>
    );
  if (verdict.result === "refused")
    return (
      <div class="fault" role="alert">
        <p>
          <strong>✗ REFUSED. This is no evidence.</strong> {bdi(verdict.why)}
        </p>
      </div>
    );
  if (verdict.result === "unsigned")
    return (
      <p>
        <span class="result failed">✗ NOT signed</span> (no <code>[conductor]evidence_key_file</code>), so
        nobody can prove that it was not changed.
      </p>
    );
  return (
    <p role="status">
      <span class="result unknown">? signature not checked here</span>. {verdict.why} The lines below check
      it.
    </p>
  );
}

function Record({ uuid, proof, verdict }: Checked & { uuid: string }) {
  const { record } = proof;
  const { run, step, node, issuer, ramdisk } = record;
  const [disks, left] = [record.disks, record.not_erased].map(listed) as [Json[], Json[]];
  const rest = (
    <>
      <Proofs uuid={uuid} proof={proof} />
      <details>
        <summary>All fields</summary>
        <Tree of={record} />
      </details>
    </>
  );
  // What it says is worth nothing, and may be anything.
  if (verdict.result === "refused" || !node?.uuid || !run || !step)
    return (
      <>
        <Signature verdict={verdict} name="" /> {rest}
      </>
    );
  const machine = [node.manufacturer, node.model, node.serial && `serial number ${node.serial}`].filter(
    Boolean,
  );
  return (
    <>
      <Signature verdict={verdict} name={issuer?.key ?? ""} />
      <p class="says">
        <Result result={record.result} /> {bdi(summary({ ...record, disks, not_erased: left }))}
      </p>
      <p>This is evidence of what the ramdisk did, and no certificate.</p>
      <Facts
        of={[
          [
            "Machine",
            <>
              {nodeLink(node)} {bdi(machine.join(", "))}
            </>,
          ],
          ["Made", wholeStamp(record.issued_at)],
          ["Asked for by", run.project ? `${run.requester}, project ${run.project}` : run.requester],
          ["Batch", <BatchOf key={record.uuid} record={record} />],
          ["Run", run.uuid ? link(path("nodes", run.node, "runs", run.uuid), verb(run.verb ?? "run")) : null],
          [
            "Step",
            <>
              {bdi(stepName(step))}, {wholeStamp(step.started_at)} to {wholeStamp(step.ended_at)}
            </>,
          ],
          ["Conductor", issuer ? `${issuer.host}, version ${issuer.version}` : null],
          ["Ramdisk", ramdisk?.agent_version ? `agent ${ramdisk.agent_version}` : null],
          ["Key", issuer?.key ? <code>{bdi(issuer.key)}</code> : null],
          ["Fingerprint of the key", verdict.fingerprint ? <code>SHA-256 {verdict.fingerprint}</code> : null],
          ["SHA-256 of the record", verdict.sha256 ? <code>{verdict.sha256}</code> : null],
        ]}
      />
      <Chain record={record} sha256={verdict.sha256} />
      <Disks disks={[...disks, ...left]} />
      {rest}
    </>
  );
}

const listed = (value: unknown) => (Array.isArray(value) ? value : []);

/** The batch in which its run was begun. */
function BatchOf({ record: { run, step, issued_at: at } }: { record: Json }) {
  const then = { since: step.started_at ?? at, before: at };
  const { found: batch } = useReading((abort) => readBatchOf(run, then, abort), [run.uuid]);
  if (batch === undefined) return <>not read</>;
  return batch ? link(path("batches", batch.uuid), batch.name ?? "batch") : <>none is known</>;
}

/**
 * The record before one, and whether its chain holds, as `baremetal erasure verify` says it.
 * @param records of its node, the newest first
 * @param whole there are no older ones
 */
export function chainOf(
  { uuid, previous }: Json,
  records: Json[],
  whole: boolean,
): { before?: Json; says: string; broken: boolean } {
  const at = records.findIndex((other) => other.uuid === uuid);
  if (at < 0)
    return whole
      ? { says: "NOT KNOWN: the list of this node does not have this record", broken: true }
      : { says: "not read: there are too many newer records", broken: false };
  const before = records[at + 1];
  const missing = { says: `MISSING, or of another project's time: SHA-256 ${plain(previous)}`, broken: true };
  if (!before && !whole) return { says: "not read", broken: false };
  if (!before) return previous ? missing : { says: "none, it is the first of this node", broken: false };
  if (!previous) return { before, says: "NOT NAMED by this record, and there is one", broken: true };
  return plain(previous) === before.sha256 ? { before, says: "", broken: false } : { before, ...missing };
}

const plain = (hash: unknown) => String(hash ?? "").replace("sha256:", "");

/** The records of this node before and after it, and whether the chain holds. */
function Chain({ record, sha256 }: { record: Json; sha256: string }) {
  const list = `/v1/erasures?${new URLSearchParams({ node: record.node.uuid, limit: "1000" })}`;
  const { body, fault } = useDocument(list);
  if (!body) return wrong(fault, list) ?? <Facts of={[["Record before", "not read"]]} />;
  const records: Json[] = body.erasures;
  const at = records.findIndex(({ uuid }) => uuid === record.uuid);
  const { before, says, broken } = chainOf(record, records, !body.next);
  const after = records[at - 1];
  const one = (other: Json) => (
    <>
      {link(path("erasures", other.uuid), other.result)} {wholeStamp(other.at)}
    </>
  );
  return (
    <Facts
      of={[
        [
          "Record before",
          <>
            {broken ? <strong class="danger">{bdi(says)}</strong> : says} {before && one(before)}
          </>,
        ],
        ["Record after", after ? one(after) : at === 0 ? "none, it is the newest of this node" : null],
        [
          "The list",
          sha256 && records[at] && records[at].sha256 !== sha256 ? (
            <strong class="danger">has another SHA-256 for this record</strong>
          ) : null,
        ],
      ]}
    />
  );
}

const Disks = ({ disks }: { disks: Json[] }) =>
  disks.length > 0 && (
    <List
      label="Disks"
      head={["Disk", "Serial number", "Result", "Level", "Method", "Tool", "Reason"]}
      rows={disks.map((disk: Json) => [
        disk.name,
        disk.serial,
        <Result result={disk.result} />,
        disk.level,
        disk.method,
        listed(disk.tools).map((tool: Json) => (
          <p>
            {bdi([tool.name, tool.version].filter(Boolean).join(" "))}:{" "}
            <code>{bdi([tool.command].flat().join(" "))}</code>
            {tool.exit !== 0 && ` (exit status ${tool.exit})`}
          </p>
        )),
        disk.why,
      ])}
    />
  );

/** The files that prove the record without the service, as one, and the lines that check them. */
function Proofs({ uuid, proof: { record, bytes, signature, pem } }: { uuid: string; proof: Proof }) {
  const own = path("erasures", uuid);
  const key = record.issuer?.key;
  const name = `erasure-${uuid.slice(0, 8)}`;
  const files = [
    [`${name}.json`, own],
    ...(key
      ? [
          [`${name}.sig`, `${own}/signature`],
          ["evidence-key.pem", path("erasures", "keys", String(key))],
        ]
      : []),
  ] as [string, string][];
  const lines = files.flatMap(([file, from]) => curl("GET", from, { file }).split("\n"));
  const verify = `openssl pkeyutl -verify -pubin -inkey evidence-key.pem -rawin -in ${name}.json -sigfile ${name}.sig`;
  const contents: [string, Uint8Array | null][] = [
    [`${name}.json`, bytes],
    [`${name}.sig`, signature],
    ["evidence-key.pem", pem === null ? null : new TextEncoder().encode(pem)],
    ["check.txt", key ? new TextEncoder().encode(`${verify}\n`) : null],
  ];
  const packed = () => zip(contents.filter((file): file is [string, Uint8Array] => file[1] !== null));
  return (
    <>
      <h2>Check it</h2>
      <div class="actions">
        <button onClick={() => save(packed(), `${name}.zip`)}>Download {name}.zip</button>
        <button onClick={() => print()}>Print</button>
        <Curl path={own} />
      </div>
      {key && (
        <>
          <p>Without this page, in a shell:</p>
          <pre tabindex={0}>{[...new Set(lines), verify].join("\n")}</pre>
          <p>
            Compare the key with your own copy.{" "}
            <code>baremetal erasure verify --node {visible(nameOf(record.node ?? {}))} --key FILE</code> also
            finds missing records.
          </p>
        </>
      )}
    </>
  );
}

/** Save a file. */
function save(content: Blob, name: string) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(content);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}
