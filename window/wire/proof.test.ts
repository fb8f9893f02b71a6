import { expect, test } from "vitest";
import { check, crc32, derOf, type Proof, zip } from "./proof";

const UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123";
const bytes = (text: string) => new TextEncoder().encode(text);
const pair = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, [
  "sign",
  "verify",
])) as CryptoKeyPair;

async function pemOf(key: CryptoKey): Promise<string> {
  const der = new Uint8Array(await crypto.subtle.exportKey("spki", key));
  return `-----BEGIN PUBLIC KEY-----\n${btoa(String.fromCharCode(...der))}\n-----END PUBLIC KEY-----\n`;
}

async function proof(more: Partial<Proof> = {}): Promise<Proof> {
  const record = { uuid: UUID, issuer: { key: "k1" }, result: "complete" };
  const own = bytes(JSON.stringify(record));
  const signature = new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, pair.privateKey, own));
  return { record, bytes: own, signature, pem: await pemOf(pair.publicKey), ...more };
}

test("a record is good if its bytes are what was signed", async () => {
  const found = await check(UUID, await proof());
  expect(found.result).toBe("good");
  expect(found.fingerprint).toMatch(/^[\da-f]{64}$/);
});

test.each<[string, () => Promise<Partial<Proof>>]>([
  [
    "a changed byte",
    async () => ({ bytes: bytes(JSON.stringify({ uuid: UUID, issuer: { key: "k1" }, result: "c0mplete" })) }),
  ],
  ["a signature of nothing", async () => ({ signature: new Uint8Array(64) })],
  ["no signature", async () => ({ signature: null })],
  ["no key of this name", async () => ({ pem: null })],
  ["no key at all", async () => ({ pem: "-----BEGIN PUBLIC KEY-----\n%%%\n-----END PUBLIC KEY-----" })],
  [
    "a key of another kind",
    async () => ({ pem: `-----BEGIN PUBLIC KEY-----\n${btoa("a key")}\n-----END PUBLIC KEY-----` }),
  ],
  ["another record", async () => ({ record: { uuid: "another", issuer: { key: "k1" } } })],
])("%s is refused", async (_, more) => {
  const found = await check(UUID, await proof(await more()));
  expect(found).toMatchObject({ result: "refused", why: expect.stringMatching(/./) });
});

test("another key is refused", async () => {
  const other = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  expect((await check(UUID, await proof({ pem: await pemOf(other.publicKey) }))).result).toBe("refused");
});

test("a record without a key is not signed", async () => {
  const record = { uuid: UUID, issuer: { key: null } };
  expect((await check(UUID, await proof({ record, signature: null, pem: null }))).result).toBe("unsigned");
});

test("a page without WebCrypto says why it checks nothing, and a proof without a signature is refused there", async () => {
  const { subtle } = crypto;
  const given = await proof();
  Object.defineProperty(crypto, "subtle", { value: undefined, configurable: true });
  try {
    expect(await check(UUID, given)).toMatchObject({ result: "open", sha256: "", fingerprint: "" });
    expect((await check(UUID, { ...given, signature: null })).result).toBe("refused");
  } finally {
    Object.defineProperty(crypto, "subtle", { value: subtle, configurable: true });
  }
});

test("the body of a PEM file is its DER", () => {
  expect([...derOf("-----BEGIN X-----\nAQ\nID\n-----END X-----\n")]).toEqual([1, 2, 3]);
});

test("a zip file has the names, sums and contents of its files", async () => {
  expect(crc32(bytes("123456789"))).toBe(0xcbf43926);
  const found = new Uint8Array(
    await zip([
      ["a.json", bytes("{}")],
      ["b.sig", bytes("xyz")],
    ]).arrayBuffer(),
  );
  const text = new TextDecoder("latin1").decode(found);
  expect(text.match(/PK\x03\x04/g)).toHaveLength(2);
  expect(text).toContain("a.json{}");
  expect(text.slice(-22)).toBe(`PK\x05\x06\0\0\0\0\x02\0\x02\0${text.slice(-10)}`);
});
