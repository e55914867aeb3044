// Writes crushsite/console/static/console/vendor/ from the pinned packages: each library as one
// readable-by-browsers module with its licence beside it, and a sprite of the icons in icons.txt.
//     npm ci && node vendor.mjs            renews the files
//     node vendor.mjs --check              fails if they differ from what the packages give

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const VENDOR = join(HERE, "../../crushsite/console/static/console/vendor");

const LANGUAGES = [
  "bash", "c", "cpp", "css", "diff", "dockerfile", "go", "ini", "java", "javascript", "json", "markdown",
  "python", "ruby", "rust", "sql", "typescript", "xml", "yaml",
];

const DIRECTIVES = ["class-map", "guard", "if-defined", "keyed", "live", "ref", "repeat", "until"];

/** Each vendored module: its package, and the exports that the console uses. */
const LIBRARIES = [
  {
    name: "lit",
    code: ['export * from "lit";', ...DIRECTIVES.map((name) => `export * from "lit/directives/${name}.js";`)],
  },
  { name: "marked", code: ['export { Lexer, Marked, Parser, Renderer } from "marked";'] },
  { name: "dompurify", code: ['export { default } from "dompurify";'] },
  {
    name: "highlight",
    from: "highlight.js",
    code: [
      'import hljs from "highlight.js/lib/core";',
      ...LANGUAGES.map((name) => `import ${name} from "highlight.js/lib/languages/${name}";`),
      ...LANGUAGES.map((name) => `hljs.registerLanguage("${name}", ${name});`),
      "export default hljs;",
    ],
    types: ['export { default } from "highlight.js";'],
  },
  { name: "ansi_up", code: ['export { AnsiUp } from "ansi_up";'] },
  { name: "diff", code: ['export { diffWordsWithSpace, structuredPatch } from "diff";'] },
  { name: "uplot", code: ['export { default } from "uplot";'] },
  { name: "ufuzzy", from: "@leeoniya/ufuzzy", code: ['export { default } from "@leeoniya/ufuzzy";'] },
];

function read(...parts) {
  return readFileSync(join(HERE, ...parts), "utf8");
}

function licenceOf(name) {
  const file = readdirSync(join(HERE, "node_modules", name)).find((each) => /^licen[cs]e/i.test(each));
  return file === undefined ? null : read("node_modules", name, file);
}

async function bundled({ name, from = name, code, types = code }) {
  const { version, license } = JSON.parse(read("node_modules", from, "package.json"));
  const made = await build({
    stdin: { contents: code.join("\n"), resolveDir: HERE },
    bundle: true,
    format: "esm",
    legalComments: "none",
    minify: true,
    target: "es2022",
    write: false,
    tsconfigRaw: {}, // its paths are for types alone
    conditions: ["production", "browser"],
  });
  const title = `/*! ${from} ${version}, ${license}: see ${name}.LICENSE.txt. Made by clients/console/vendor.mjs. */\n`;
  return {
    [`${name}.js`]: title + made.outputFiles[0].text,
    [`${name}.d.ts`]: `${types.join("\n")}\n`,
    [`${name}.LICENSE.txt`]: `${from} ${version}\n\n${licenceOf(from) ?? license}`,
  };
}

function icons() {
  const { version } = JSON.parse(read("node_modules", "lucide-static", "package.json"));
  const symbols = read("icons.txt").trim().split(/\s+/).map((name) => {
    const svg = read("node_modules", "lucide-static", "icons", `${name}.svg`);
    const body = svg.slice(svg.indexOf(">", svg.indexOf("<svg")) + 1, svg.lastIndexOf("</svg>"));
    return `<symbol id="${name}" viewBox="0 0 24 24">${body.replace(/\s*\n\s*/g, "")}</symbol>`;
  });
  const title = `<!-- lucide-static ${version}, ISC: see icons.LICENSE.txt. Made by clients/console/vendor.mjs. -->`;
  return {
    "icons.svg": `<svg xmlns="http://www.w3.org/2000/svg">${title}\n${symbols.join("\n")}\n</svg>\n`,
    "icons.LICENSE.txt": `lucide-static ${version}\n\n${licenceOf("lucide-static")}`,
  };
}

const files = Object.assign(
  {},
  ...(await Promise.all(LIBRARIES.map(bundled))),
  icons(),
  { "uplot.css": read("node_modules/uplot/dist/uPlot.min.css") },
);
const isCheck = process.argv.includes("--check");
const known = new Set(readdirSync(VENDOR));
const wrong = [...known].filter((name) => !(name in files) && name !== "README.md");
for (const [name, text] of Object.entries(files)) {
  if (known.has(name) && readFileSync(join(VENDOR, name), "utf8") === text) continue;
  if (isCheck) wrong.push(name);
  else writeFileSync(join(VENDOR, name), text);
}
if (wrong.length > 0) {
  console.error(`vendor: not what the pinned packages give: ${wrong.join(", ")}. Run: node vendor.mjs`);
  process.exit(1);
}
