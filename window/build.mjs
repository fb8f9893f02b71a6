/**
 * Bundle the window: `node build.mjs FOLDER` writes the script and the style sheet of the service,
 * `node build.mjs FOLDER parts` the page of all parts in all their states.
 */
import { build } from "esbuild";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";

const [folder, page = "main"] = process.argv.slice(2);
const SCRIPT = `${page}.js`;

/** Files by name, whose imports of one another still have the names of esbuild. */
async function bundled() {
  const { outputFiles, metafile } = await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: [`${page}.tsx`, "style.css"],
    outdir: "out",
    entryNames: "[name]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    minify: true,
    metafile: true,
    write: false,
    format: "esm",
    target: "es2022",
    legalComments: "none",
    logLevel: "warning",
  });
  const files = new Map(outputFiles.map(({ path, text }) => [path.replace(/.*\/out\//, ""), text]));
  return { files, inputs: Object.keys(metafile.inputs) };
}

/** Names without hashes, in the order in which the files import one another: the address has a hash. */
function renamed(files) {
  const names = new Map([[SCRIPT, SCRIPT]]);
  for (const name of names.keys()) {
    for (const [, imported] of files.get(name).matchAll(/"\.\/([\w.-]+\.js)"/g)) {
      if (names.has(imported)) continue;
      const plain = imported.replace(/-\w+(?=\.js$)/, "");
      const taken = [...names.values()];
      let next = plain;
      for (let at = 2; taken.includes(next); at += 1) next = plain.replace(".js", `-${at}.js`);
      names.set(imported, next);
    }
  }
  const rewrite = (text) => text.replace(/"\.\/([\w.-]+\.js)"/g, (_, name) => `"./${names.get(name)}"`);
  return [...files].map(([name, text]) => [names.get(name) ?? name, rewrite(text)]);
}

/** The licences of the packages whose code is bundled. */
function licences(inputs) {
  const packages = new Set(inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]));
  const texts = new Map();
  for (const name of [...packages].filter(Boolean).sort()) {
    const at = join(import.meta.dirname, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(at, "package.json"), "utf8"));
    const text = readFileSync(join(at, "LICENSE"), "utf8").trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}, ${license}`]);
  }
  const line = `\n\n${"=".repeat(80)}\n\n`;
  return `${[...texts].map(([text, names]) => `${names.join("\n")}\n\n${text}`).join(line)}\n`;
}

const { files, inputs } = await bundled();
mkdirSync(folder, { recursive: true });
for (const name of readdirSync(folder)) if (/\.(js|css|br)$/.test(name)) rmSync(join(folder, name));
for (const [name, text] of renamed(files)) {
  writeFileSync(join(folder, name), text);
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: text.length };
  writeFileSync(join(folder, `${name}.br`), brotliCompressSync(text, { params }));
}
if (page === "parts") {
  const head = `<meta charset="utf-8"><title>Parts</title><link rel="stylesheet" href="style.css">`;
  const script = `<script type="module" src="${SCRIPT}"></script>`;
  writeFileSync(
    join(folder, "index.html"),
    `<!doctype html>\n<html lang="en"><head>${head}</head><body><main id="parts"></main>${script}</body></html>\n`,
  );
} else writeFileSync(join(folder, "LICENSES"), licences(inputs));
