/** Erasure records: a list that is searched. */
import { Field, typed } from "../parts/fields";
import { lazy } from "../parts/lazy";
import { DocumentView, List } from "../parts/read";
import { bdi, filters, nodeLink, Result, stamp } from "../parts/text";
import { many, visible } from "../parts/words";
import { changeRoute, href, path, request, route } from "../state/route";
import { type Json } from "../wire/json";

const RecordPage = lazy(async () => (await import("./record")).RecordPage);

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
  if (parts[1]) return <RecordPage key={parts[1]} uuid={parts[1]} />;
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
