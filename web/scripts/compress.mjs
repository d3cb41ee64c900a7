// node scripts/compress.mjs FOLDER: writes FILE.br and FILE.gz beside each file of text, where they are smaller.
// The server sends them as they are.
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

const text = new Set([".css", ".html", ".js", ".json", ".map", ".mjs", ".svg", ".txt", ".wasm", ".webmanifest", ".xml"]);
/** Smaller files fit one packet either way. */
const smallest = 1024;

const codings = {
  ".br": (bytes) =>
    promisify(brotliCompress)(bytes, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 11,
        [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
        [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      },
    }),
  ".gz": (bytes) => promisify(gzip)(bytes, { level: 9 }),
};

const folder = process.argv[2];
if (folder === undefined) {
  console.error("usage: node scripts/compress.mjs FOLDER");
  process.exit(2);
}

const entries = await readdir(folder, { recursive: true, withFileTypes: true });
const sizes = { "": 0, ".br": 0, ".gz": 0 };
let files = 0;
for (const entry of entries) {
  if (!entry.isFile() || !text.has(extname(entry.name))) continue;
  const path = join(entry.parentPath, entry.name);
  const bytes = await readFile(path);
  if (bytes.length < smallest) continue;
  files += 1;
  sizes[""] += bytes.length;
  for (const [extension, compress] of Object.entries(codings)) {
    const compressed = await compress(bytes);
    const isSmaller = compressed.length < bytes.length;
    sizes[extension] += isSmaller ? compressed.length : bytes.length;
    if (isSmaller) await writeFile(path + extension, compressed);
    else await rm(path + extension, { force: true });
  }
}
const kilobytes = (size) => `${(size / 1000).toFixed(1)} kB`;
console.log(
  `compressed ${files} files of ${kilobytes(sizes[""])}: ${kilobytes(sizes[".br"])} by Brotli, ${kilobytes(sizes[".gz"])} by gzip`,
);
