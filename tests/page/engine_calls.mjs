// Calls of the browser's engine, asked for as JSON on standard input and answered in a file; see node_engine.py.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { engine, jobs, out } = JSON.parse(readFileSync(0, "utf8"));
const load = (path) => import(pathToFileURL(`${engine}/${path}`).href);
const { openModel } = await load("index.js");

/** The same with plain lists; a number that JSON cannot hold becomes a text. */
function plain(value) {
  if (ArrayBuffer.isView(value)) return Array.from(value, plain);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
  return value;
}

async function answer(model, [work, ...given]) {
  const body = /\s/.test(work) ? work : `return model.${work}(...given)`;
  return new Function("model", "given", "load", `return (async () => { ${body} })()`)(model, given, load);
}

const answers = [];
for (const { file, calls } of jobs) {
  const found = [];
  let model = null;
  try {
    if (file) model = await openModel(readFileSync(file));
  } catch (error) {
    found.push(...calls.map(() => ({ error: `${error.name}: ${error.message}` })));
  }
  for (const call of calls.slice(found.length)) {
    try {
      found.push({ found: plain(await answer(model, call)) });
    } catch (error) {
      found.push({ error: `${error.name}: ${error.message}` });
    }
  }
  answers.push(found);
}
writeFileSync(out, JSON.stringify(answers));
