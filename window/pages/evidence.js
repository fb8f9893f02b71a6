/** Erasure records: a list that is searched, and one record with a sentence, its signature, its files. */
import { h } from "../vendor/preact.js";
import { List, Shown, Tree } from "../parts/read.js";
import { bdi, field, filters, html, many, nameOf, nodeLink, Result, say, stamp, typed, visible } from "../parts/text.js";
import { asked, changeRoute, href, path, route } from "../state/route.js";
import { curl, open } from "../wire/api.js";

/** @typedef {Record<string, any>} Json */

/** Results, for those who have not read the documentation. @type {Record<string, string>} */
const MEANING = {
  partial: "not all disks", failed: "not erased", unknown: "no report",
};

/** @param {Json} one */
const resultOf = (one) => html`${h(Result, { result: one.result })}${MEANING[one.result] ? `: ${MEANING[one.result]}` : ""}`;

/** @param {{by: string | null | undefined}} props `by`: the key, or none */
const Signed = ({ by }) => html`<span class=${by ? "" : "result failed"}>${by ? "signed; not checked here" : "✗ NOT signed"}</span>`;

export function EvidencePage() {
  const { parts, query, view } = route.value;
  if (parts[1]) {
    return html`<h1>Erasure record</h1>
      ${h(Shown, { path: route.value.path, draw: (body) => h(Erasure, { record: body }) })}`;
  }
  const words = view.q ?? "";
  return html`<h1>Erasures</h1>
    <div class="filters">
      ${field("Part of a name or serial number", {
        type: "search", value: words, onInput: typed((value) => changeRoute({ "~q": value }, { replace: true })),
      })}
      ${filters(query)}
      <a href=${href("/v1/nodes", { retired: "true", data_state: "dirty" })}>retired and dirty nodes</a>
    </div>
    ${h(Shown, {
      path: asked({ limit: "1000" }), absent: "There is no such node, and no record of it.",
      draw: (body) => h(Found, { body, words }),
    })}`;
}

/** @param {{body: Json, words: string}} props */
function Found({ body, words }) {
  const wanted = words.trim().toLowerCase();
  const rows = body.erasures.filter((/** @type {Json} */ one) =>
    [one.node_name, one.node_uuid, ...(one.serials ?? [])].some((text) => String(text ?? "").toLowerCase().includes(wanted)));
  const further = wanted && body.next;
  return html`${(rows.length > 0 || !wanted) && h(ErasureList, { body: { erasures: rows } })}
    ${wanted && html`<p role="status">
      ${many(rows.length || "No", "record")} of ${further ? "the newest " : ""}${body.erasures.length} with ${bdi(words)}. <button onClick=${() => changeRoute({ "~q": "" })}>Clear the search</button>
      ${further && html` <button onClick=${() => changeRoute({ "~q": "", serial: words.trim() })}>Search all records for this serial number</button>`}
    </p>`}`;
}

/** @param {{body: Json}} props */
export function ErasureList({ body }) {
  return h(List, {
    label: "Erasures",
    head: ["At", "Node", "Result", "Signature of the record", "Level", "Disks", "Record"],
    rows: body.erasures.map((/** @type {Json} */ one) => [
      stamp(one.at), nodeLink({ name: one.node_name, uuid: one.node_uuid }), resultOf(one),
      h(Signed, { by: one.key }), one.level, (one.serials ?? []).join(", "),
      html`<a href=${href(path("erasures", one.uuid))}>show
        <span class="unseen"> the record of ${visible(one.node_name ?? one.node_uuid)}</span></a>`,
    ]),
  });
}

/** @param {Json} record @returns {string} a sentence */
function summary({ result, disks, not_erased: left, not_known: why, error, level, node }) {
  const all = `${many(disks.length, "disk")} of ${nameOf(node)}`;
  if (result === "complete") return `${all} erased, at the level ${level}.`;
  if (result === "partial") return `${left.length} of ${all} NOT erased.`;
  const reason = error ?? why;
  return `The erasure of ${nameOf(node)} ${result === "failed" ? "FAILED" : "is NOT KNOWN"}${reason ? `: ${reason}` : ""}.`;
}

/** @param {{record: Json}} props */
function Erasure({ record }) {
  const { uuid, issuer, disks, result, issued_at: at, node } = record;
  const own = path("erasures", uuid);
  const key = issuer?.key;
  const name = `erasure-${uuid.slice(0, 8)}`;
  const files = /** @type {[string, string][]} */ ([
    [`${name}.json`, own],
    ...(key ? [[`${name}.sig`, `${own}/signature`], ["evidence-key.pem", path("erasures", "keys", key)]] : []),
  ]);
  const lines = files.flatMap(([file, from]) => curl("GET", from, { file }).split("\n"));
  const verify = `openssl pkeyutl -verify -pubin -inkey evidence-key.pem -rawin -in ${name}.json -sigfile ${name}.sig`;
  return html`<p class="says">${h(Result, { result })} ${bdi(summary(record))}</p>
    <p>${h(Signed, { by: key })} · ${stamp(at)} · ${nodeLink(node)}. This is evidence of what the ramdisk did, and no certificate.</p>
    ${disks.length > 0 && h(List, {
      label: "Disks",
      head: ["Disk", "Serial number", "Result", "Level", "Method", "Reason"],
      rows: disks.map((/** @type {Json} */ one) => [
        one.name, one.serial, h(Result, { result: one.result }), one.level, one.method, one.why,
      ]),
    })}
    <h2>Check it</h2>
    <div class="actions">
      ${files.map(([file, from]) => html`<button onClick=${() => save(from, file)}>Download ${file}</button>`)}
    </div>
    ${key
      ? html`<p>In a shell:</p>
          <pre tabindex="0">${[...new Set(lines), verify].join("\n")}</pre>
          <p>Compare the key with your own copy. <code>baremetal erasure verify --node ${visible(nameOf(node))} --key FILE</code> also finds missing records.</p>`
      : html`<p>It is not signed (no <code>[conductor]evidence_key_file</code>), so nobody can prove that it was not changed.</p>`}
    <details><summary>All fields</summary>${h(Tree, { of: record })}</details>`;
}

/** Save exactly the bytes of an answer as a file. @param {string} from @param {string} name */
async function save(from, name) {
  const answer = await open("GET", from).catch(() => null);
  if (!answer?.ok) return say(`${name} could not be read.`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
