// SQL box: statements for one replica, and their results as tables. Shown if the cluster has the data type `sql`.

import { createHtml, setText } from "./dom.js";
import { credentials } from "./streams.js";
import { parseJson } from "./text.js";

const ROWS_MAX = 100;
const OPERATIONS = ["queries", "transaction"];
const byId = (id) => document.getElementById(id);

export class SqlBox {
  constructor(cluster, choose) {
    this.cluster = cluster;
    this.choose = choose;
    this.drawn = "";
    this.call = null; // call whose last response is pending
    byId("sql-form").addEventListener("submit", (event) => { event.preventDefault(); this.execute(); });
    byId("sql-text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("sql-form").requestSubmit();
    });
  }

  draw() {
    const { about, members } = this.cluster;
    const names = (about?.operations ?? []).map(({ name }) => name);
    const shown = OPERATIONS.every((each) => names.includes(each));
    byId("sql").hidden = !shown;
    if (!shown) return;
    if (this.drawn !== String(members)) {
      this.drawn = String(members);
      byId("sql-replica").replaceChildren(...members.map((each) => createHtml("option", { value: String(each) }, String(each))));
    }
    this.showLastResponse();
  }

  async execute() {
    const strong = byId("sql-form").elements.consistency.value === "strong";
    const replica = Number(byId("sql-replica").value);
    const statements = splitStatements(byId("sql-text").value);
    if (!statements.length) return;
    const address = `${this.cluster.at(replica).address}/sql?consistency=${strong ? "strong" : "weak"}&timeout=10`;
    const headers = { "Content-Type": "application/json", ...credentials() };
    let response, result;
    try {
      response = await fetch(address, { method: "POST", headers, body: JSON.stringify({ statements }) });
      result = parseJson(await response.text());
    } catch {
      this.show([createHtml("p", { class: "bad" }, `Replica ${replica} is unreachable`)], "");
      return;
    }
    const isOrdered = response.headers.has("Location") || Boolean(result.call && result.operation === "transaction");
    this.call = isOrdered ? result.call : null;
    if (this.call) this.choose(this.call);
    if (response.status === 202) this.show([], "waits for a majority");
    else if (response.ok) this.show(result.value.map(drawResult), result.kind);
    else this.show([createHtml("p", { class: "bad" }, result.detail)], result.kind ?? "");
  }

  show(elements, state) {
    byId("sql-results").replaceChildren(...elements);
    setText(byId("sql-state"), state);
    byId("sql-state").className = `state ${state}`;
  }

  /** Show the last response of the call: final, or changed. */
  showLastResponse() {
    const last = this.call && this.cluster.histories.get(this.call)?.responses?.at(-1);
    if (!last || last.kind === "tentative") return;
    this.call = null;
    const state = last.changed ? "changed" : "stable";
    setText(byId("sql-state"), last.changed ? `changed, now ${last.says}` : state);
    byId("sql-state").className = `state ${state}`;
  }
}

/** Split text at semicolons outside of quotes and comments. */
export function splitStatements(text) {
  const parts = text.match(/(?:'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?\*\/|[^;])+/g) ?? [];
  return parts.map((each) => each.trim()).filter(Boolean);
}

function drawResult({ columns, rows, row_count: count }) {
  if (!columns.length) return createHtml("p", { class: "note" }, count === 1 ? "1 row changed" : `${count} rows changed`);
  const hasNumbers = (n) => rows.length && rows.every((row) => isNumber(row[n]));
  const head = createHtml("tr", {}, ...columns.map((each, n) => createHtml("th", { scope: "col", class: hasNumbers(n) ? "n" : null }, each)));
  const body = rows.slice(0, ROWS_MAX).map((row) => createHtml("tr", {}, ...row.map(drawCell)));
  const table = createHtml("table", {}, createHtml("thead", {}, head), createHtml("tbody", {}, ...body));
  if (rows.length > ROWS_MAX) table.append(createHtml("caption", {}, `${ROWS_MAX} of ${rows.length} rows`));
  return table;
}

const isNumber = (value) => typeof value === "number" || typeof value === "bigint";

/** Return bytes, which are in base64, as a literal of SQL. */
function blobLiteral(base64) {
  const bytes = [...atob(base64)].map((each) => each.charCodeAt(0).toString(16).padStart(2, "0"));
  return `x'${bytes.join("")}'`;
}

function drawCell(value) {
  if (value === null) return createHtml("td", { class: "note" }, "NULL");
  if (isNumber(value)) return createHtml("td", { class: "n" }, String(value));
  if (typeof value === "object") return createHtml("td", {}, blobLiteral(value.$bytes));
  return createHtml("td", {}, value);
}
