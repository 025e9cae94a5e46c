// What can be done in a trial: call operations, cut links, kill replicas; and what one has seen of it.

import { made, say } from "./made.js";
import { groups } from "./words.js";

const EXAMPLES = { string: "lamp", boolean: "true", array: "[1, 2]" };
const SAID_MAX = 5;
const byId = (id) => document.getElementById(id);

export class Trial {
  constructor(cluster, choose) {
    this.cluster = cluster;
    this.choose = choose;
    this.done = new Set();
    this.sides = new Set();
    this.typed = new Map(); // what was given last, by the names of arguments
    this.drawn = "";
    byId("operation").addEventListener("change", () => this.ask());
    byId("call").addEventListener("submit", (event) => { event.preventDefault(); this.call(); });
    byId("heal").addEventListener("click", () => this.heal());
  }

  // --- breaking and mending ----------------------------------------------------------------

  async control(path, body) {
    const { control, secret } = this.cluster.trial;
    const headers = { "Content-Type": "application/json", "Creek-Trial": secret };
    let response, told;
    try {
      response = await fetch(control + path, { method: "POST", headers, body: JSON.stringify(body) });
      told = await response.json();
    } catch {
      this.tell("‘creek up’ does not answer: has it ended?", true);
      return;
    }
    if (!response.ok) this.tell(told.detail, true);
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

  killOrStart(replica) {
    return this.control(this.cluster.at(replica).live ? "/kill" : "/start", { replica });
  }

  actsFor(replica) {
    const isolate = made("button", { type: "button", class: "act", "data-act": "isolate", onclick: () => this.isolate(replica) }, "isolate");
    const kill = made("button", { type: "button", class: "act", "data-act": "kill", onclick: () => this.killOrStart(replica) }, "kill");
    return [isolate, kill];
  }

  // --- calling -------------------------------------------------------------------------------

  draw(columns) {
    const { cluster } = this;
    byId("trial").hidden = !cluster.trial;
    if (!cluster.trial) return;
    if (this.drawn !== String(cluster.members)) this.begin();
    for (const column of columns) {
      const [isolate, kill] = column.acts.children;
      column.acts.hidden = !cluster.breakable(column.replica);
      say(isolate, this.isIsolated(column.replica) ? "heal" : "isolate");
      say(kill, cluster.at(column.replica).live ? "kill" : "start");
      isolate.setAttribute("aria-label", `${isolate.textContent} replica ${column.replica}`);
      kill.setAttribute("aria-label", `${kill.textContent} replica ${column.replica}`);
    }
    byId("heal").disabled = !cluster.pairs().some(([one, other]) => cluster.isCut(one, other));
    this.guide();
    this.tellEnds();
  }

  begin() {
    this.drawn = String(this.cluster.members);
    const { operations } = this.cluster.about;
    byId("operation").replaceChildren(...operations.map(({ name }) => made("option", { value: name }, name)));
    const first = operations.find((each) => !each.readonly) ?? operations[0];
    byId("operation").value = first?.name;
    byId("places").replaceChildren(...[...this.cluster.members, "each"].map((each, n) => made("label", {},
      made("input", { type: "radio", name: "at", value: String(each), checked: n === 0 }), made("span", {}, String(each)))));
    this.ask();
  }

  operation() {
    const name = byId("operation").value;
    return this.cluster.about.operations.find((each) => each.name === name);
  }

  ask() {
    const { takes, about } = this.operation();
    for (const { name, value } of byId("arguments").querySelectorAll("input")) this.typed.set(name, value);
    byId("arguments").replaceChildren(...takes.map((each, n) => made("label", { class: "field" },
      made("span", {}, each.required ? each.name : `${each.name} (optional)`),
      made("input", { name: each.name, value: this.typed.get(each.name) ?? (each.required ? example(each, n) : ""), required: each.required, placeholder: hint(each), spellcheck: "false", autocapitalize: "off" }))));
    say(byId("about"), about);
  }

  given() {
    const body = {};
    for (const each of this.operation().takes) {
      const text = byId("arguments").querySelector(`[name="${CSS.escape(each.name)}"]`).value.trim();
      if (text || each.required) body[each.name] = understood(text, each);
    }
    return body;
  }

  async call() {
    const form = new FormData(byId("call"));
    const strong = Boolean(form.get("strong"));
    const at = form.get("at") === "each" ? this.cluster.living() : [Number(form.get("at"))];
    const operation = this.operation();
    const body = this.given();
    await Promise.all(at.map((replica) => this.callAt(replica, operation, body, strong)));
  }

  async callAt(replica, { name, readonly }, body, strong) {
    const query = `consistency=${strong ? "strong" : "weak"}&wait=tentative&timeout=5`;
    const address = `${this.cluster.at(replica).address}/operations/${encodeURIComponent(name)}?${query}`;
    let response, told;
    try {
      response = await fetch(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      told = await response.json();
    } catch {
      this.tell(`Replica ${replica} does not answer`, true);
      return;
    }
    const ordered = told.call && !(readonly && !strong);
    if (ordered) this.choose(told.call);
    if (!strong && ordered) this.sides.add(replica);
    const where = `Replica ${replica}, ${name}:`;
    if (response.status === 202) this.tell(`${where} it waits for a majority`, false, told.call);
    else if (response.ok) this.tell(`${where} ${shown(told.value)}, ${told.kind}${ordered ? "" : "; it only reads, and takes no place"}`, false, ordered && told.kind === "tentative" ? told.call : null);
    else this.tell(`${where} ${told.detail}${told.kind ? `, ${told.kind}` : ""}`, !told.kind);
  }

  /** `call`: of which there is more to tell. */
  tell(text, bad = false, call = null) {
    const said = byId("said");
    said.prepend(made("div", { class: bad ? "bad" : "", "data-call": call }, text));
    while (said.children.length > SAID_MAX) said.lastChild.remove();
  }

  /** How calls ended that have had a tentative answer. */
  tellEnds() {
    for (const row of byId("said").querySelectorAll("[data-call]")) {
      const last = this.cluster.lives.get(row.dataset.call)?.answers?.at(-1);
      if (!last || last.kind === "tentative") continue;
      delete row.dataset.call;
      if (last.changed) row.append(made("b", { class: "bad" }, `; finally ${last.says}: an apology is due`));
      else row.append(last.kind === "stable" ? `; ${last.says}, stable` : "; final");
    }
  }

  // --- what one has seen ---------------------------------------------------------------------

  guide() {
    const { cluster } = this;
    const parts = groups(cluster);
    const split = parts.length > 1;
    if (split) {
      if (!this.split) { this.sides.clear(); ["both", "differ", "heal"].forEach((each) => this.done.delete(each)); }
      this.done.add("cut");
      if (parts.filter((part) => part.some((each) => this.sides.has(each))).length > 1) this.done.add("both");
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

/** As the lists show it. */
const shown = (value) => (value === null ? "None" : JSON.stringify(value));

/** What stands in a field at first. If its type is not known, the first is mostly the name of something. */
function example({ type }, n) {
  return EXAMPLES[type] ?? (type || n ? "3" : "lamp");
}

function hint({ type, rest, required, default: usual }) {
  if (rest) return "[1, 2, …]";
  if (!required && usual !== "None") return usual;
  return { string: "text", integer: "number", number: "number", boolean: "true or false" }[type] ?? "3, text or [1, 2]";
}

/** A number is a number, and whatever is no JSON is a text. */
function understood(text, { type }) {
  if (type === "string") return text;
  try { return JSON.parse(text); } catch { return text; }
}
