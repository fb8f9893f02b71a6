/** What a deployment installs: the image, which the node keeps, and the config drive of the request. */
import { useLayoutEffect, useState } from "preact/hooks";
import { MASK } from "../wire/curl";
import { type Json, withValue } from "../wire/json";
import { Field, typed } from "./fields";
import { useChange } from "./form";
import { FaultBox, useDocument } from "./read";

const IMAGE = ["image_source", "image_checksum"] as const;
const GZIP = [0x1f, 0x8b];

/** @returns images of other nodes of the class, without those that contain a login */
function useImages(resourceClass: string | null) {
  const filter = resourceClass ? `&resource_class=${encodeURIComponent(resourceClass)}` : "";
  const { body } = useDocument(`/v1/nodes?fields=instance_info&limit=100${filter}`);
  const found = (body?.nodes ?? []).map((node: Json) => node.instance_info?.image_source);
  return [...new Set<string>(found.filter((url: unknown) => url && !String(url).includes(MASK)))];
}

/** @returns the config drive of a form, undefined if nothing is typed */
export function driveOf({ hostname, key, user_data, file }: Json): unknown {
  if (file) return file;
  const meta = withValue({}, "hostname", hostname ?? "");
  if (key) meta.public_keys = { default: key };
  const drive: Json = Object.keys(meta).length ? { meta_data: meta } : {};
  if (user_data) drive.user_data = user_data;
  return Object.keys(drive).length ? drive : undefined;
}

/** @returns a file as the API takes it: text as it is, a compressed image in Base64 */
export function encoded(bytes: Uint8Array): string {
  const binary = GZIP.every((byte, at) => bytes[at] === byte);
  if (!binary) return new TextDecoder().decode(bytes).trim();
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

/**
 * @param props `node` as it was read, with its `tag`; `reload` it; `onDrive` gets the part of the request;
 *   `onUnsaved` gets whether the fields differ from the node
 */
export function Instance({
  node,
  tag,
  own,
  reload,
  onDrive,
  onUnsaved,
}: {
  node: Json;
  tag: string;
  own: string;
  reload: () => void;
  onDrive: (part: Json) => void;
  onUnsaved: (unsaved: boolean) => void;
}) {
  const known: Json = node.instance_info ?? {};
  const [image, setImage] = useState({} as Json);
  const [drive, setDrive] = useState({} as Json);
  /** The version of the node that a saved image has replaced. */
  const [saved, setSaved] = useState("");
  const { busy, fault, change: send } = useChange();
  const images = useImages(node.resource_class);
  const change = (part: Json) => {
    const next = { ...drive, ...part };
    setDrive(next);
    const configdrive = driveOf(next);
    onDrive(configdrive === undefined ? {} : { configdrive });
  };
  const changed = IMAGE.filter((name) => name in image && image[name] !== (known[name] ?? ""));
  const unsaved = changed.length > 0;
  useLayoutEffect(() => onUnsaved(unsaved), [unsaved]);
  const save = () => {
    const patch = changed.map((name) =>
      image[name]
        ? { op: "add", path: `/instance_info/${name}`, value: image[name] }
        : { op: "remove", path: `/instance_info/${name}` },
    );
    // What is typed stays until the node is read again: else its old image would be planned for a moment.
    void send({ method: "PATCH", path: own, body: patch, tag }, () => {
      setSaved(tag);
      reload();
    });
  };
  const onFile = async (event: any) => {
    const file: File | undefined = event.currentTarget.files?.[0];
    change({ file: file && encoded(new Uint8Array(await file.arrayBuffer())) });
  };
  return (
    <section aria-label="Instance">
      <div class="form-grid">
        {IMAGE.map((name) => (
          <Field
            label={name === "image_source" ? "Image" : "Checksum"}
            key={name}
            list={name === "image_source" ? "images" : undefined}
            placeholder={name === "image_source" ? "https://…/image.qcow2" : "sha256, sha512 or their URL"}
            autocomplete="off"
            spellcheck={false}
            value={image[name] ?? known[name] ?? ""}
            onInput={typed((value) => setImage({ ...image, [name]: value }))}
          />
        ))}
      </div>
      <datalist id="images">
        {images.map((url) => (
          <option value={url} />
        ))}
      </datalist>
      {unsaved && (
        <button type="button" disabled={busy || saved === tag} onClick={save}>
          Save the image
        </button>
      )}
      {fault && <FaultBox fault={fault} />}
      <details>
        <summary>Config drive</summary>
        <div class="form-grid">
          <Field label="Host name" autocomplete="off" onInput={typed((hostname) => change({ hostname }))} />
          <Field label="File" type="file" onChange={onFile} />
        </div>
        <label class="block">
          SSH key{" "}
          <textarea rows={2} autocomplete="off" onInput={typed((key) => change({ key: key.trim() }))} />
        </label>
        <label class="block">
          User data{" "}
          <textarea rows={3} autocomplete="off" onInput={typed((user_data) => change({ user_data }))} />
        </label>
      </details>
    </section>
  );
}
