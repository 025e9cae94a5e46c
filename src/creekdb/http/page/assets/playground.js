// Playground of a development cluster: calls, cut links, killed replicas, and a guided tour.

import { createHtml, setText, withCode } from "./dom.js";
import { formatJson, parseJson, partitions } from "./text.js";

const EXAMPLES = { string: "lamp", boolean: "true", array: "[1, 2]" };
const CONSTANTS = new Map([[null, "None"], [true, "True"], [false, "False"]]); // as in Python
const RESULTS_MAX = 8;
const POLL_MS = 100;
const DEMO_PAUSE_MS = 2000;
const DEMO_TIMEOUT_MS = 20_000;
const GROUPS_MAX = 15; // splits that are offered
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const byId = (id) => document.getElementById(id);

export class Playground {
  constructor(cluster, choose) {
    this.cluster = cluster;
    this.choose = choose;
    this.done = new Set();
    this.calledReplicas = new Set();
    this.typed = new Map(); // latest inputs by argument name
    this.drawn = "";
    byId("operation").addEventListener("change", () => this.drawArguments());
    byId("call").addEventListener("submit", (event) => { event.preventDefault(); this.call(); });
    byId("heal").addEventListener("click", () => this.heal());
    byId("split").addEventListener("change", (event) => this.separate(event.target.value));
    byId("demo").addEventListener("click", () => this.demonstrate());
  }

  // --- faults --------------------------------------------------------------------------------

  async control(path, body) {
    const { control, secret } = this.cluster.trial;
    const headers = { "Content-Type": "application/json", "Creek-Trial": secret };
    let response, result;
    try {
      response = await fetch(control + path, { method: "POST", headers, body: JSON.stringify(body) });
      result = await response.json();
    } catch {
      this.report("‘creek up’ is unreachable; it may have ended", true);
      return;
    }
    if (!response.ok) this.report(result.detail, true);
  }

  press([one, other]) {
    return this.control(this.cluster.isCut(one, other) ? "/heal" : "/cut", { links: [[one, other]] });
  }

  linksOf(replica) {
    return this.cluster.members.filter((each) => each !== replica).map((each) => [replica, each]);
  }

  isIsolated(replica) {
    return this.linksOf(replica).every(([one, other]) => this.cluster.isCut(one, other));
  }

  isolate(replica) {
    return this.control(this.isIsolated(replica) ? "/heal" : "/cut", { links: this.linksOf(replica) });
  }

  heal() {
    return this.control("/heal", { links: this.cluster.pairs().filter((link) => this.cluster.breakable(...link)) });
  }

  /** Cut all links between a group of replicas, such as `0,1`, and the others; heal the rest. */
  async separate(group) {
    if (!group) return this.heal();
    const names = group.split(",").map(Number);
    const between = ([one, other]) => names.includes(one) !== names.includes(other);
    const links = this.cluster.pairs().filter((link) => this.cluster.breakable(...link));
    const inside = links.filter((link) => !between(link) && this.cluster.isCut(...link));
    if (inside.length) await this.control("/heal", { links: inside });
    return this.control("/cut", { links: links.filter(between) });
  }

  killOrStart(replica) {
    return this.control(this.cluster.at(replica).live ? "/kill" : "/start", { replica });
  }

  actionsFor(replica) {
    const isolate = createHtml("button", { type: "button", class: "act", "data-act": "isolate", onclick: () => this.isolate(replica) }, "isolate");
    const kill = createHtml("button", { type: "button", class: "act", "data-act": "kill", onclick: () => this.killOrStart(replica) }, "kill");
    return [isolate, kill];
  }

  // --- calls ---------------------------------------------------------------------------------

  draw(columns) {
    const { cluster } = this;
    byId("playground").hidden = !cluster.trial;
    if (!cluster.trial) return;
    if (this.drawn !== String(cluster.members)) this.build();
    for (const column of columns) {
      const [isolate, kill] = column.actions.children;
      column.actions.hidden = !cluster.breakable(column.replica);
      setText(isolate, this.isIsolated(column.replica) ? "heal" : "isolate");
      setText(kill, cluster.at(column.replica).live ? "kill" : "start");
      isolate.setAttribute("aria-label", `${isolate.textContent} replica ${column.replica}`);
      kill.setAttribute("aria-label", `${kill.textContent} replica ${column.replica}`);
    }
    byId("heal").disabled = !cluster.pairs().some(([one, other]) => cluster.isCut(one, other));
    const parts = partitions(cluster);
    const current = parts.length === 2 ? parts.find((each) => each.includes(cluster.members[0])).join() : "";
    if (document.activeElement !== byId("split") && byId("split").value !== current) byId("split").value = current;
    byId("demo").hidden = !this.bookingOperation();
    this.guide();
    this.appendLastResponses();
  }

  build() {
    this.drawn = String(this.cluster.members);
    const { operations } = this.cluster.about;
    byId("operation").replaceChildren(...operations.map(({ name }) => createHtml("option", { value: name }, name)));
    const first = operations.find((each) => !each.readonly) ?? operations[0];
    byId("operation").value = first?.name;
    byId("split").replaceChildren(createHtml("option", { value: "" }, "not split"),
      ...groups(this.cluster.members).map((each) => createHtml("option", { value: each.join() }, `${each.join(", ")} | ${this.cluster.members.filter((other) => !each.includes(other)).join(", ")}`)));
    byId("targets").replaceChildren(...[...this.cluster.members, "each"].map((each, n) => createHtml("label", {},
      createHtml("input", { type: "radio", name: "at", value: String(each), checked: n === 0 }), createHtml("span", {}, String(each)))));
    this.drawArguments();
  }

  operation() {
    const name = byId("operation").value;
    return this.cluster.about.operations.find((each) => each.name === name);
  }

  drawArguments() {
    const { takes, about } = this.operation();
    for (const { name, value } of byId("arguments").querySelectorAll("input")) this.typed.set(name, value);
    byId("arguments").replaceChildren(...takes.map((each, n) => createHtml("label", { class: "field" },
      createHtml("span", {}, each.required ? each.name : `${each.name} (optional)`),
      createHtml("input", { name: each.name, value: this.typed.get(each.name) ?? (each.required ? this.example(each, n) : ""), required: each.required, placeholder: hint(each), spellcheck: "false", autocapitalize: "off" }))));
    byId("about").replaceChildren(...withCode(about));
  }

  /** Return the initial input of a field. An untyped first argument is usually a key. */
  example({ type }, n) {
    if (this.cluster.about.datatype === "sql") return n ? "" : "SELECT 1";
    return EXAMPLES[type] ?? (type || n ? "3" : "lamp");
  }

  argumentValues() {
    const body = {};
    for (const each of this.operation().takes) {
      const text = byId("arguments").querySelector(`[name="${CSS.escape(each.name)}"]`).value.trim();
      if (text || each.required) body[each.name] = parseArgument(text, each);
    }
    return body;
  }

  async call() {
    const form = new FormData(byId("call"));
    const strong = Boolean(form.get("strong"));
    const targets = form.get("at") === "each" ? this.cluster.living() : [Number(form.get("at"))];
    const operation = this.operation();
    const body = this.argumentValues();
    await Promise.all(targets.map((replica) => this.callAt(replica, operation, body, strong)));
  }

  async callAt(replica, { name, readonly }, body, strong) {
    const query = `consistency=${strong ? "strong" : "weak"}&wait=tentative&timeout=5`;
    const address = `${this.cluster.at(replica).address}/operations/${encodeURIComponent(name)}?${query}`;
    let response, result;
    try {
      response = await fetch(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: formatJson(body) });
      result = parseJson(await response.text());
    } catch {
      this.report(`Replica ${replica} is unreachable`, true);
      return;
    }
    const ordered = result.call && !(readonly && !strong);
    if (ordered) this.choose(result.call);
    if (!strong && ordered) this.calledReplicas.add(replica);
    const where = `Replica ${replica}, ${name}:`;
    if (response.status === 202) this.report(`${where} waits for a majority`, false, result.call);
    else if (response.ok) this.report(`${where} ${formatValue(result.value)}, ${result.kind}${ordered ? "" : "; read-only, not ordered"}`, false, ordered && result.kind === "tentative" ? result.call : null);
    else this.report(`${where} ✗ ${result.detail}${result.kind ? `, ${result.kind}` : ""}`, true);
    return result;
  }

  // --- demo: two customers, one seat ---------------------------------------------------------

  /** Return the operation by which a customer books a seat if it is free, or undefined. */
  bookingOperation() {
    return this.cluster.members.length > 2 && this.cluster.about.operations.find(({ name }) => name === "put_if_absent");
  }

  /** Let two customers book one seat on both sides of a partition, and heal it. */
  async demonstrate() {
    const { cluster } = this;
    const [left, right] = cluster.members;
    const booking = this.bookingOperation();
    const seat = `${String.fromCharCode(65 + Math.random() * 26)}${1 + Math.floor(Math.random() * 99)}`;
    const book = async (replica, customer) => {
      const result = await this.callAt(replica, booking, { key: seat, value: customer }, false);
      if (!result?.call) throw new Error(`replica ${replica} did not execute the call`);
      return result;
    };
    byId("demo").disabled = true;
    byId("story").replaceChildren();
    try {
      await this.heal();
      await this.until(() => partitions(cluster).length === 1 && this.isMerged());
      await this.separate(String(left));
      await this.until(() => partitions(cluster).length > 1);
      this.narrate(`Replica ${left} is cut off. Ann books seat ${seat} there, and Bob at replica ${right}.`);
      const ann = await book(left, "ann");
      const bob = await book(right, "bob");
      await this.until(() => this.lastResponse(bob.call)?.kind === "final");
      this.narrate("Both responses are True: each customer has a booking. Bob’s is final, Ann’s is tentative. Now the network heals.");
      await pause(DEMO_PAUSE_MS);
      await this.heal();
      await this.until(() => this.lastResponse(ann.call)?.kind === "final");
      this.choose(ann.call);
      this.narrate(`All replicas have one order, in which Bob was first. Dear Ann, we are sorry: seat ${seat} is taken.`);
    } catch (error) {
      this.narrate(`The demo ended: ${error.message}`, true);
    } finally {
      byId("demo").disabled = false;
    }
  }

  /** Add a sentence to the story of the demo. */
  narrate(text, bad = false) {
    byId("story").append(createHtml("p", { class: bad ? "bad" : "" }, text));
  }

  lastResponse(call) {
    return this.cluster.histories.get(call)?.responses?.at(-1);
  }

  /** Wait until the page shows a condition. */
  async until(holds) {
    for (let waited = 0; !holds(); waited += POLL_MS) {
      if (waited > DEMO_TIMEOUT_MS) throw new Error("the cluster did not reach the next step; start all replicas, and repeat it");
      await pause(POLL_MS);
    }
  }

  /** Show a result. `call`: identifier of a call whose last response is pending. */
  report(text, bad = false, call = null) {
    const results = byId("results");
    results.prepend(createHtml("div", { class: bad ? "bad" : "", "data-call": call }, text));
    while (results.children.length > RESULTS_MAX) results.lastChild.remove();
  }

  /** Append the last responses of calls that had a tentative one. */
  appendLastResponses() {
    for (const row of byId("results").querySelectorAll("[data-call]")) {
      const last = this.cluster.histories.get(row.dataset.call)?.responses?.at(-1);
      if (!last || last.kind === "tentative") continue;
      delete row.dataset.call;
      if (last.changed) row.append(createHtml("b", { class: "bad" }, `; finally ${last.says}: an apology is due`));
      else row.append(last.kind === "stable" ? `; ${last.says}, stable` : "; final");
    }
  }

  // --- guided tour ---------------------------------------------------------------------------

  guide() {
    const { cluster } = this;
    const parts = partitions(cluster);
    const split = parts.length > 1;
    if (split) {
      if (!this.split) { this.calledReplicas.clear(); ["both", "differ", "heal"].forEach((each) => this.done.delete(each)); }
      this.done.add("cut");
      if (parts.filter((part) => part.some((each) => this.calledReplicas.has(each))).length > 1) this.done.add("both");
      const lists = new Set(cluster.living().map((each) => cluster.at(each).now.tentative.filter((entry) => !entry.own).map(({ id }) => id).join()));
      if (this.done.has("both") && lists.size > 1) this.done.add("differ");
    } else if (this.done.has("differ") && this.isMerged()) {
      this.done.add("heal");
    }
    this.split = split;
    for (const step of byId("steps").children) step.classList.toggle("done", this.done.has(step.dataset.step));
  }

  isMerged() {
    const living = this.cluster.living().map((each) => this.cluster.at(each).now);
    return living.length === this.cluster.members.length
      && new Set(living.map((now) => now.committed_length)).size === 1
      && living.every((now) => !now.tentative.some((entry) => !entry.own));
  }
}

/** Return the groups into which the replicas can be split; each contains the first replica. */
function groups(members) {
  const [first, ...others] = members;
  const all = Array.from({ length: 2 ** Math.min(others.length, 10) - 1 }, (_, bits) => [first, ...others.filter((_, n) => bits & (1 << n))]);
  return all.sort((one, other) => one.length - other.length).slice(0, GROUPS_MAX);
}

/** Format a value like the lists. */
const formatValue = (value) => CONSTANTS.get(value) ?? formatJson(value);

function hint({ type, rest, required, default: defaultValue }) {
  if (rest) return "[1, 2, …]";
  if (!required && defaultValue !== "None") return defaultValue;
  return { string: "text", integer: "number", number: "number", boolean: "true or false" }[type] ?? "3, text or [1, 2]";
}

/** Parse the input as JSON; other text is a string. */
function parseArgument(text, { type }) {
  if (type === "string") return text;
  try { return parseJson(text); } catch { return text; }
}
