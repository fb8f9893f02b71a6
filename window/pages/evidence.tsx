/** Erasure records: a list that is searched, and one record with a sentence, its signature, its files. */
import { Field, typed } from "../parts/fields";
import { DocumentView, List, Tree } from "../parts/read";
import { bdi, filters, nodeLink, Result, stamp, wholeStamp } from "../parts/text";
import { say } from "../parts/toasts";
import { many, nameOf, visible } from "../parts/words";
import { changeRoute, href, path, request, route } from "../state/route";
import { open } from "../wire/api";
import { curl } from "../wire/curl";
import { type Json } from "../wire/json";

/** Results, for those who have not read the documentation. */
const MEANING: Record<string, string> = {
  partial: "not all disks",
  failed: "not erased",
  unknown: "no report",
};

const resultOf = (record: Json) => (
  <>
    <Result result={record.result} />
    {MEANING[record.result] ? `: ${MEANING[record.result]}` : ""}
  </>
);

/** @param props `by`: the key, or none */
const Signed = ({ by }: { by: string | null | undefined }) => (
  <span class={by ? "" : "result failed"}>{by ? "signed; not checked here" : "✗ NOT signed"}</span>
);

export function EvidencePage() {
  const { parts, query, view } = route.value;
  if (parts[1]) {
    return (
      <>
        <h1>Erasure record</h1>
        <DocumentView path={route.value.path} draw={(body) => <Erasure record={body} />} />
      </>
    );
  }
  const words = view.q ?? "";
  return (
    <>
      <h1>Erasures</h1>
      <div class="filters">
        <Field
          label="Part of a name or serial number"
          type="search"
          value={words}
          onInput={typed((value) => changeRoute({ "~q": value }, { replace: true }))}
        />
        {filters(query)}
        <a href={href("/v1/nodes", { retired: "true", data_state: "dirty" })}>retired and dirty nodes</a>
      </div>
      <DocumentView
        path={request({ limit: "1000" })}
        absent="There is no such node, and no record of it."
        draw={(body) => <Found body={body} words={words} />}
      />
    </>
  );
}

function Found({ body, words }: { body: Json; words: string }) {
  const wanted = words.trim().toLowerCase();
  const rows = body.erasures.filter((record: Json) =>
    [record.node_name, record.node_uuid, ...(record.serials ?? [])].some((text) =>
      String(text ?? "")
        .toLowerCase()
        .includes(wanted),
    ),
  );
  const further = wanted && body.next;
  return (
    <>
      {(rows.length > 0 || !wanted) && <ErasureList body={{ erasures: rows }} />}
      {wanted && (
        <p role="status">
          {many(rows.length || "No", "record")} of {further ? "the newest " : ""}
          {body.erasures.length} with {bdi(words)}.{" "}
          <button onClick={() => changeRoute({ "~q": "" })}>Clear the search</button>
          {further && (
            <>
              {" "}
              <button onClick={() => changeRoute({ "~q": "", serial: words.trim() })}>
                Search all records for this serial number
              </button>
            </>
          )}
        </p>
      )}
    </>
  );
}

export function ErasureList({ body }: { body: Json }) {
  return (
    <List
      label="Erasures"
      head={["At", "Node", "Result", "Signature of the record", "Level", "Disks", "Record"]}
      days={body.erasures.map((record: Json) => record.at)}
      rows={body.erasures.map((record: Json) => [
        stamp(record.at, record.at),
        nodeLink({ name: record.node_name, uuid: record.node_uuid }),
        resultOf(record),
        <Signed by={record.key} />,
        record.level,
        (record.serials ?? []).join(", "),
        <a href={href(path("erasures", record.uuid))}>
          show<span class="unseen"> the record of {visible(record.node_name ?? record.node_uuid)}</span>
        </a>,
      ])}
    />
  );
}

/** @returns a sentence */
function summary({ result, disks, not_erased: left, not_known: why, error, level, node }: Json): string {
  const all = `${many(disks.length, "disk")} of ${nameOf(node)}`;
  if (result === "complete") return `${all} erased, at the level ${level}.`;
  if (result === "partial") return `${left.length} of ${all} NOT erased.`;
  const reason = error ?? why;
  return `The erasure of ${nameOf(node)} ${result === "failed" ? "FAILED" : "is NOT KNOWN"}${reason ? `: ${reason}` : ""}.`;
}

function Erasure({ record }: { record: Json }) {
  const { uuid, issuer, disks, result, issued_at: at, node } = record;
  const own = path("erasures", uuid);
  const key = issuer?.key;
  const name = `erasure-${uuid.slice(0, 8)}`;
  const files = [
    [`${name}.json`, own],
    ...(key
      ? [
          [`${name}.sig`, `${own}/signature`],
          ["evidence-key.pem", path("erasures", "keys", key)],
        ]
      : []),
  ] as [string, string][];
  const lines = files.flatMap(([file, from]) => curl("GET", from, { file }).split("\n"));
  const verify = `openssl pkeyutl -verify -pubin -inkey evidence-key.pem -rawin -in ${name}.json -sigfile ${name}.sig`;
  return (
    <>
      <p class="says">
        <Result result={result} /> {bdi(summary(record))}
      </p>
      <p>
        <Signed by={key} /> · {wholeStamp(at)} · {nodeLink(node)}. This is evidence of what the ramdisk did,
        and no certificate.
      </p>
      {disks.length > 0 && (
        <List
          label="Disks"
          head={["Disk", "Serial number", "Result", "Level", "Method", "Reason"]}
          rows={disks.map((disk: Json) => [
            disk.name,
            disk.serial,
            <Result result={disk.result} />,
            disk.level,
            disk.method,
            disk.why,
          ])}
        />
      )}
      <h2>Check it</h2>
      <div class="actions">
        {files.map(([file, from]) => (
          <button onClick={() => save(from, file)}>Download {file}</button>
        ))}
      </div>
      {key ? (
        <>
          <p>In a shell:</p>
          <pre tabindex={0}>{[...new Set(lines), verify].join("\n")}</pre>
          <p>
            Compare the key with your own copy.{" "}
            <code>baremetal erasure verify --node {visible(nameOf(node))} --key FILE</code> also finds missing
            records.
          </p>
        </>
      ) : (
        <p>
          It is not signed (no <code>[conductor]evidence_key_file</code>), so nobody can prove that it was not
          changed.
        </p>
      )}
      <details>
        <summary>All fields</summary>
        <Tree of={record} />
      </details>
    </>
  );
}

/** Save exactly the bytes of an answer as a file. */
async function save(from: string, name: string) {
  const answer = await open("GET", from).catch(() => null);
  if (!answer?.ok) return say(`${name} could not be read.`, { failed: true });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
