// What /openapi.json says, for people: each operation, what it takes, and a command that calls it.

import { made, say } from "./made.js";
import { credentials, hasToken, useToken } from "./streams.js";

const byId = (id) => document.getElementById(id);
const EXAMPLES = { string: "text", integer: 1, number: 1.5, boolean: true, array: [], object: {}, null: null };

function typed(schema) {
  if (schema.title) return schema.title;
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map(typed).join(" or ");
  if (schema.type === "array" && schema.items?.type) return `array of ${typed(schema.items)}`;
  return schema.type ?? "anything";
}

function example(schema) {
  if ("default" in schema) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(schema.anyOf[0]);
  if (schema.prefixItems) return schema.prefixItems.map(example);
  if (schema.properties) return Object.fromEntries(Object.entries(schema.properties).map(([name, each]) => [name, example(each)]));
  return EXAMPLES[schema.type] ?? "text";
}

/** For a shell: whatever stands in quotes there. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function command(path, query, body) {
  const words = ["curl", "-s"];
  if (location.protocol === "https:") words.push("--cacert", "authority.pem");
  words.push(quoted(location.origin + path + query));
  if (hasToken()) words.push("-H", '"Authorization: Bearer $CREEK_TOKEN"');
  if (body !== undefined) words.push("--json", quoted(JSON.stringify(body)));
  return made("pre", { tabindex: "0" }, words.join(" "));
}

const table = (head, rows) => made("div", { class: "scroll" }, made("table", {},
  made("thead", {}, made("tr", {}, ...head.map((each) => made("th", { scope: "col" }, each)))),
  made("tbody", {}, ...rows.map((row) => made("tr", {}, ...row.map((each) => made("td", {}, each)))))));

const paragraphs = (text) => text.split("\n\n").map((each) => made("p", {}, each));

function operation(path, { summary, description, requestBody, "x-creek-readonly": reads }) {
  const { properties, required } = requestBody.content["application/json"].schema;
  const rows = Object.entries(properties).map(([name, schema]) => [
    made("code", {}, name), typed(schema), required.includes(name) ? "" : `may be left out${"default" in schema ? `: ${JSON.stringify(schema.default)}` : ""}`,
  ]);
  const body = Object.fromEntries(required.map((name) => [name, example(properties[name])]));
  return made("article", {},
    made("h3", {}, path.split("/").at(-1), made("small", {}, reads ? "only reads" : "")),
    ...paragraphs(description.slice(summary.length).trim()),
    rows.length ? table(["argument", "type", ""], rows) : null,
    command(path, "", body), command(path, "?consistency=strong", body));
}

function looking(path, { summary, parameters }) {
  return made("article", {},
    made("h3", {}, `GET ${path}`), ...paragraphs(summary),
    parameters.length ? table(["parameter", "in the", ""], parameters.map((each) => [made("code", {}, each.name), each.in, each.description])) : null,
    command(path.replace("{id}", "0.17"), ""));
}

async function show() {
  let response;
  try {
    response = await fetch("/openapi.json", { headers: credentials() });
  } catch {
    return say(byId("title"), "The replica does not answer.");
  }
  byId("token").hidden = response.status !== 401;
  if (response.status === 401) {
    say(byId("token").querySelector("label"), hasToken() ? "The cluster does not know this token: try another." : "This cluster asks for a token.");
    return say(byId("title"), "Who are you?");
  }
  if (!response.ok) return say(byId("title"), `The replica answers with ${response.status}.`);
  const { info, paths } = await response.json();
  say(byId("title"), info.title);
  byId("about").replaceChildren(...paragraphs(info.description.replaceAll("\n\n", "\0").replaceAll("\n", " ").replaceAll("\0", "\n\n").replaceAll(/[*`]/g, "")));
  const all = Object.entries(paths);
  const calls = all.filter(([, each]) => each.post).map(([path, each]) => operation(path, each.post));
  const looks = all.filter(([, each]) => each.get).map(([path, each]) => looking(path, each.get));
  byId("operations").replaceChildren(made("h2", {}, "Call"), ...calls, made("h2", { class: "next" }, "Look"), ...looks);
}

try {
  const stored = localStorage.getItem("creek-theme");
  if (["light", "dark"].includes(stored)) document.documentElement.dataset.theme = stored;
} catch { /* a private window */ }
byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token-text").value);
  show();
});
show();
