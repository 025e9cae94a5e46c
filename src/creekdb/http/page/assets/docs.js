// /openapi.json as a readable page: each operation with its arguments and a curl command.

import { createHtml, setText, withCode } from "./dom.js";
import { credentials, hasToken, useToken } from "./streams.js";

const byId = (id) => document.getElementById(id);
const OPERATIONS = "/operations/";
const EXAMPLES = { string: "text", integer: 1, number: 1.5, boolean: true, array: [], object: {}, null: null };

function typeName(schema) {
  if (schema.title) return schema.title;
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.type === "array" && schema.items?.type) return `array of ${typeName(schema.items)}`;
  return schema.type ?? "anything";
}

function example(schema) {
  if (schema.examples) return schema.examples[0];
  if ("default" in schema) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(schema.anyOf[0]);
  if (schema.prefixItems) return schema.prefixItems.map(example);
  if (schema.properties) return Object.fromEntries(Object.entries(schema.properties).map(([name, each]) => [name, example(each)]));
  return EXAMPLES[schema.type] ?? "text";
}

/** Quote the text for a shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function command(path, query, body) {
  const words = ["curl", "-s"];
  if (location.protocol === "https:") words.push("--cacert", "authority.pem");
  words.push(quoted(location.origin + path + query));
  if (hasToken()) words.push("-H", '"Authorization: Bearer $CREEK_TOKEN"');
  if (body !== undefined) words.push("--json", quoted(JSON.stringify(body)));
  return createHtml("pre", { tabindex: "0" }, words.join(" "));
}

const table = (head, rows) => createHtml("div", { class: "scroll" }, createHtml("table", {},
  createHtml("thead", {}, createHtml("tr", {}, ...head.map((each) => createHtml("th", { scope: "col" }, each)))),
  createHtml("tbody", {}, ...rows.map((row) => createHtml("tr", {}, ...row.map((each) => createHtml("td", {}, each)))))));

const paragraphs = (text) => text.split("\n\n").map((each) => createHtml("p", {}, ...withCode(each)));

function operation(path, { summary, description, requestBody, "x-creek-readonly": reads }) {
  const { properties, required } = requestBody.content["application/json"].schema;
  const rows = Object.entries(properties).map(([name, schema]) => [
    createHtml("code", {}, name), typeName(schema), required.includes(name) ? "" : `optional${"default" in schema ? `, default ${JSON.stringify(schema.default)}` : ""}`,
  ]);
  const body = Object.fromEntries(required.map((name) => [name, example(properties[name])]));
  return createHtml("article", {},
    createHtml("h3", {}, path.startsWith(OPERATIONS) ? path.slice(OPERATIONS.length) : `POST ${path}`, createHtml("small", {}, reads ? "read-only" : "")),
    ...paragraphs(description.startsWith(summary) ? description.slice(summary.length).trim() : description),
    rows.length ? table(["argument", "type", ""], rows) : null,
    command(path, "", body), command(path, "?consistency=strong", body));
}

function readPath(path, { summary, parameters }) {
  return createHtml("article", {},
    createHtml("h3", {}, `GET ${path}`), ...paragraphs(summary),
    parameters.length ? table(["parameter", "in", ""], parameters.map((each) => [createHtml("code", {}, each.name), each.in, createHtml("span", {}, ...withCode(each.description))])) : null,
    command(path.replace("{id}", "0.17"), ""));
}

async function show() {
  let response;
  try {
    response = await fetch("/openapi.json", { headers: credentials() });
  } catch {
    return setText(byId("title"), "The replica is unreachable.");
  }
  byId("token").hidden = response.status !== 401;
  if (response.status === 401) {
    setText(byId("token").querySelector("label"), hasToken() ? "The cluster rejected this token; try another." : "This cluster requires a token.");
    return setText(byId("title"), "Token required");
  }
  if (!response.ok) return setText(byId("title"), `The replica responded with status ${response.status}.`);
  const { info, paths } = await response.json();
  setText(byId("title"), info.title);
  byId("about").replaceChildren(...paragraphs(info.description.replaceAll("\n\n", "\0").replaceAll("\n", " ").replaceAll("\0", "\n\n").replaceAll("*", "")));
  const all = Object.entries(paths);
  const calls = all.filter(([, each]) => each.post).map(([path, each]) => operation(path, each.post));
  const reads = all.filter(([, each]) => each.get).map(([path, each]) => readPath(path, each.get));
  byId("operations").replaceChildren(createHtml("h2", {}, "Call"), ...calls, createHtml("h2", { class: "next" }, "Read"), ...reads);
}

try {
  const stored = localStorage.getItem("creek-theme");
  if (["light", "dark"].includes(stored)) document.documentElement.dataset.theme = stored;
} catch { /* no storage in a private window */ }
byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token-text").value);
  show();
});
show();
