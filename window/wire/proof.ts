/** Proofs of erasure records: their exact bytes, checked by the browser, and one file with all of them. */
import { path } from "../state/route";
import { Fault, fault, get, open, parsed } from "./api";
import { type Json } from "./json";

export interface Proof {
  record: Json;
  /** what was signed */
  bytes: Bytes;
  /** null without one */
  signature: Bytes | null;
  /** the public key that the record names, in PEM; null if the service has none of this name */
  pem: string | null;
}
type Bytes = Uint8Array<ArrayBuffer>;

/** @returns the exact bytes of an answer; null for 404 */
async function bytesOf(from: string, abort: AbortSignal): Promise<Bytes | null> {
  const answer = await open("GET", from, { signal: abort });
  if (answer.status === 401) {
    await get(from, abort); // It asks for the login.
    return bytesOf(from, abort);
  }
  const bytes = new Uint8Array(await answer.arrayBuffer());
  if (answer.ok) return bytes;
  if (answer.status === 404) return null;
  throw fault(answer, text(bytes), `GET ${from}`);
}

const text = (bytes: Bytes) => new TextDecoder().decode(bytes);

/**
 * Read a record, its signature and its key.
 * @throws Fault also for a record that does not exist
 */
export async function readProof(own: string, abort: AbortSignal): Promise<Proof> {
  const bytes = await bytesOf(own, abort);
  if (!bytes) throw new Fault("There is no such record.", { status: 404, address: `GET ${own}` });
  const record: Json = parsed(text(bytes)) ?? {};
  const name = record.issuer?.key;
  if (!name) return { record, bytes, signature: null, pem: null };
  const [signature, key] = await Promise.all([
    bytesOf(`${own}/signature`, abort),
    bytesOf(path("erasures", "keys", String(name)), abort),
  ]);
  return { record, bytes, signature, pem: key && text(key) };
}

/** The body of a PEM file, DER. */
export const derOf = (pem: string): Bytes =>
  Uint8Array.from(atob(pem.replace(/-----[^-]*-----/g, "").replace(/\s/g, "")), (sign) => sign.charCodeAt(0));

const hex = (bytes: ArrayBuffer) =>
  [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** @returns SHA-256; "" where the browser has no WebCrypto */
export const digest = async (bytes: Bytes): Promise<string> =>
  crypto.subtle ? hex(await crypto.subtle.digest("SHA-256", bytes)) : "";

export interface Verdict {
  /** `open`: this browser cannot check it */
  result: "good" | "refused" | "unsigned" | "open";
  /** why it is not good */
  why: string;
  /** SHA-256 of the record */
  sha256: string;
  /** SHA-256 of the public key, DER */
  fingerprint: string;
}

/**
 * Check a record as `baremetal erasure verify` does.
 * @param uuid that was asked for
 */
export async function check(uuid: string, { record, bytes, signature, pem }: Proof): Promise<Verdict> {
  const sha256 = await digest(bytes);
  const name = record.issuer?.key;
  const verdict = (result: Verdict["result"], why = "", fingerprint = ""): Verdict => ({
    result,
    why,
    sha256,
    fingerprint,
  });
  if (String(record.uuid).toLowerCase() !== uuid.toLowerCase())
    return verdict("refused", "The service has answered with another record.");
  if (!name) return verdict("unsigned");
  if (!signature) return verdict("refused", `The record names the key ${name}, and has no signature.`);
  if (!pem) return verdict("refused", `The service has no key ${name}.`);
  // Browsers have it on pages by HTTPS and from the own machine alone.
  if (!crypto.subtle) {
    const why = "Browsers check signatures on pages by HTTPS and from this machine alone.";
    return verdict("open", why);
  }
  let key: CryptoKey;
  let fingerprint: string;
  try {
    const der = derOf(pem);
    fingerprint = await digest(der);
    key = await crypto.subtle.importKey("spki", der, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if ((error as Error).name === "NotSupportedError")
      return verdict("open", "This browser does not know Ed25519.");
    return verdict("refused", `The key ${name} of the service is no public Ed25519 key.`);
  }
  return (await crypto.subtle.verify({ name: "Ed25519" }, key, signature, bytes))
    ? verdict("good", "", fingerprint)
    : verdict("refused", "The record was changed, or signed with another key.", fingerprint);
}

// -- A zip file without compression, as its files are small.

const TABLE = Uint32Array.from({ length: 256 }, (_, at) => {
  let value = at;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

export const crc32 = (bytes: Uint8Array): number =>
  (bytes.reduce((sum, byte) => (TABLE[(sum ^ byte) & 255] ?? 0) ^ (sum >>> 8), 0xffffffff) ^ 0xffffffff) >>>
  0;

/** Numbers of so many bytes, the lowest byte first. */
function numbers(...pairs: [number, number][]): Uint8Array {
  return Uint8Array.from(
    pairs.flatMap(([value, size]) => Array.from({ length: size }, (_, at) => (value >>> (8 * at)) & 255)),
  );
}

const VERSION = 20;
/** The first day that a zip file can name: a time of the browser would say nothing of the record. */
const DATE = (1 << 5) | 1;

/** @param files names in ASCII, and contents */
export function zip(files: [string, Uint8Array][]): Blob {
  const parts: Uint8Array[] = [];
  const entries: Uint8Array[] = [];
  let at = 0;
  for (const [name, bytes] of files) {
    const title = new TextEncoder().encode(name);
    const { length } = bytes;
    const about: [number, number][] = [
      [VERSION, 2],
      [0, 2],
      [0, 2],
      [0, 2],
      [DATE, 2],
    ];
    about.push([crc32(bytes), 4], [length, 4], [length, 4], [title.length, 2], [0, 2]);
    const head = numbers([0x04034b50, 4], ...about);
    entries.push(numbers([0x02014b50, 4], [VERSION, 2], ...about, [0, 8], [0, 2], [at, 4]), title);
    parts.push(head, title, bytes);
    at += head.length + title.length + length;
  }
  const size = entries.reduce((sum, { length }) => sum + length, 0);
  const end = numbers(
    [0x06054b50, 4],
    [0, 4],
    [files.length, 2],
    [files.length, 2],
    [size, 4],
    [at, 4],
    [0, 2],
  );
  return new Blob([...parts, ...entries, end] as BlobPart[], { type: "application/zip" });
}
