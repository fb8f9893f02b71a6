/** The page of an erasure record: its content, the check of its signature, its proof as a file. It is made for print. */
import { Facts, List, Skeleton, useDocument, wrong } from "../parts/read";
import { useReading } from "../parts/reading";
import { bdi, link, nodeLink, Result, Tree, wholeStamp } from "../parts/text";
import { many, nameOf, stepName, verb, visible } from "../parts/words";
import { path } from "../state/route";
import { curl } from "../wire/curl";
import { type Json } from "../wire/json";
import { check, type Proof, readProof, type Verdict, zip } from "../wire/proof";
import { readBatchOf } from "../parts/history";

/** @returns the result of a record as a sentence */
function summary({ result, disks, not_erased: kept, not_known: unknown, error, level, node }: Json): string {
  const all = `${many(disks.length + kept.length, "disk")} of ${nameOf(node)}`;
  if (result === "complete") return `${all} erased, at the level ${level}.`;
  if (result === "partial") return `${kept.length} of ${all} NOT erased.`;
  const reason = error ?? unknown;
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
    <div class="record">
      <h1>Erasure record</h1>
      {wrong(fault, own)}
      {checked ? <Record uuid={uuid} {...checked} /> : !fault && <Skeleton />}
    </div>
  );
}

/** The result of the check by the browser. It stands above the content of the record. */
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
        <span class="result failed">✗ NOT signed</span> (no <code>[conductor]evidence_key_file</code>), so a
        later change of the record cannot be detected.
      </p>
    );
  return (
    <p role="status">
      <span class="result unknown">? signature not checked here</span>. {verdict.why} Use the lines below.
    </p>
  );
}

function Record({ uuid, proof, verdict }: Checked & { uuid: string }) {
  const { record } = proof;
  const { run, step, node, issuer, ramdisk } = record;
  const [disks, kept] = [record.disks, record.not_erased].map(listOf) as [Json[], Json[]];
  const proofs = (
    <>
      <Proofs uuid={uuid} proof={proof} />
      <details>
        <summary>All fields</summary>
        <Tree of={record} />
      </details>
    </>
  );
  // The content of a refused record is not trusted, and may have any form.
  if (verdict.result === "refused" || !node?.uuid || !run || !step)
    return (
      <>
        <Signature verdict={verdict} name="" /> {proofs}
      </>
    );
  const machine = [node.manufacturer, node.model, node.serial && `serial number ${node.serial}`].filter(
    Boolean,
  );
  return (
    <>
      <Signature verdict={verdict} name={issuer?.key ?? ""} />
      <p class="says">
        <Result result={record.result} /> {bdi(summary({ ...record, disks, not_erased: kept }))}
      </p>
      <p>This is evidence of what the ramdisk did. It is not a certificate.</p>
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
      <Disks disks={[...disks, ...kept]} />
      {proofs}
    </>
  );
}

const listOf = (value: unknown) => (Array.isArray(value) ? value : []);

/** The batch that began the run of a record. */
function BatchOf({ record: { run, step, issued_at: at } }: { record: Json }) {
  const period = { since: step.started_at ?? at, before: at };
  const { found: batch } = useReading((abort) => readBatchOf(run, period, abort), [run.uuid]);
  if (batch === undefined) return <>not read</>;
  return batch ? link(path("batches", batch.uuid), batch.name ?? "batch") : <>no batch is known</>;
}

/**
 * The record before one, and whether the chain holds, by the rules of `baremetal erasure verify`.
 * @param records of its node, the newest first
 * @param complete the list contains the oldest record
 */
export function chainOf(
  { uuid, previous }: Json,
  records: Json[],
  complete: boolean,
): { before?: Json; text: string; broken: boolean } {
  const at = records.findIndex((other) => other.uuid === uuid);
  if (at < 0)
    return complete
      ? { text: "NOT KNOWN: the list of this node does not have this record", broken: true }
      : { text: "not read: there are too many newer records", broken: false };
  const before = records[at + 1];
  const missing = {
    text: `MISSING, or of another project's time: SHA-256 ${digestIn(previous)}`,
    broken: true,
  };
  if (!before && !complete) return { text: "not read", broken: false };
  if (!before) return previous ? missing : { text: "none, this is the first of the node", broken: false };
  if (!previous) return { before, text: "NOT NAMED by this record, although it exists", broken: true };
  return digestIn(previous) === before.sha256 ? { before, text: "", broken: false } : { before, ...missing };
}

/** @param previous as a record names the one before it: `sha256:` and the digest */
const digestIn = (previous: unknown) => String(previous ?? "").replace("sha256:", "");

/** The records of the node before and after this one, and whether the chain holds. */
function Chain({ record, sha256 }: { record: Json; sha256: string }) {
  const list = `/v1/erasures?${new URLSearchParams({ node: record.node.uuid, limit: "1000" })}`;
  const { body, fault } = useDocument(list);
  if (!body) return wrong(fault, list) ?? <Facts of={[["Record before", "not read"]]} />;
  const records: Json[] = body.erasures;
  const at = records.findIndex(({ uuid }) => uuid === record.uuid);
  const { before, text, broken } = chainOf(record, records, !body.next);
  const after = records[at - 1];
  const recordLink = (other: Json) => (
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
            {broken ? <strong class="danger">{bdi(text)}</strong> : text} {before && recordLink(before)}
          </>,
        ],
        [
          "Record after",
          after ? recordLink(after) : at === 0 ? "none, this is the newest of the node" : null,
        ],
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
        listOf(disk.tools).map((tool: Json) => (
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

/** The files that prove the record without the service, as one archive, and shell commands that check them. */
function Proofs({ uuid, proof: { record, bytes, signature, pem } }: { uuid: string; proof: Proof }) {
  const own = path("erasures", uuid);
  const key = record.issuer?.key;
  const name = `erasure-${uuid.slice(0, 8)}`;
  const [json, sig, keyFile] = [`${name}.json`, `${name}.sig`, "evidence-key.pem"];
  const verify = `openssl pkeyutl -verify -pubin -inkey ${keyFile} -rawin -in ${json} -sigfile ${sig}`;
  const encoded = (text: string | null) => (text === null ? null : new TextEncoder().encode(text));
  const files: { file: string; from?: string; content: Uint8Array | null }[] = [
    { file: json, from: own, content: bytes },
    ...(key
      ? [
          { file: sig, from: `${own}/signature`, content: signature },
          { file: keyFile, from: path("erasures", "keys", String(key)), content: encoded(pem) },
          { file: "check.txt", content: encoded(`${verify}\n`) },
        ]
      : []),
  ];
  const lines = files.flatMap(({ file, from }) => (from ? curl("GET", from, { file }).split("\n") : []));
  const archive = () =>
    zip(files.flatMap(({ file, content }) => (content ? [[file, content] as [string, Uint8Array]] : [])));
  return (
    <>
      <h2>Check it</h2>
      <div class="actions">
        <button onClick={() => save(archive(), `${name}.zip`)}>Download {name}.zip</button>
        <button onClick={() => print()}>Print</button>
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
