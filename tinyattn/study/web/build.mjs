// Bundles src/ into ../explorer.html, into which Python inserts the data of a run.
// Run `npm ci && npm run build` here; `node build.mjs OUT.html` writes to another file (the tests compare both).
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "explorer.html");

async function bundle(entry) {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [join("src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2022"],
    legalComments: "none",
    charset: "ascii",
  });
  return result.outputFiles[0].text.trimEnd();
}

// The digest of the sources lets a machine without Node verify that the committed bundle is up to date.
function digestOfSources() {
  const hash = createHash("sha256");
  const sources = readdirSync(join(here, "src")).map((name) => join("src", name));
  for (const name of [...sources, "build.mjs", "package.json"].sort()) {
    hash.update(readFileSync(join(here, name)));
  }
  return hash.digest("hex");
}

const script = await bundle("main.js");
const style = await bundle("style.css");
// Content security policy: the page executes this script only, regardless of the displayed text, and loads nothing.
const scriptHash = createHash("sha256").update(script).digest("base64");
const policy = `default-src 'none'; script-src 'sha256-${scriptHash}'; style-src 'unsafe-inline'; img-src data:`;

const page = readFileSync(join(here, "src", "index.html"), "utf8")
  .replace("__POLICY__", () => policy)
  .replace("__STYLE__", () => style)
  .replace("__SCRIPT__", () => script)
  .replace("__SOURCES__", () => digestOfSources());
writeFileSync(out, page);
