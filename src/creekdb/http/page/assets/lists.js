// Operations of each replica, newest first: tentative above, committed below. Moves are animated.

import { badge, applyColour, issuer, createHtml, setText } from "./dom.js";

const FRESH_MAX = 6; // more new rows at once are not animated
const CHANGES_MAX = 5; // more changes within CHANGES_MS are not animated either
const CHANGES_MS = 2000;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export class Column {
  constructor(replica, actions, choose) {
    this.replica = replica;
    this.choose = choose;
    this.rows = new Map();
    this.changes = [];
    this.role = createHtml("span", { class: "role" });
    this.counts = createHtml("p", { class: "counts" });
    this.list = createHtml("ol", { class: "list", reversed: true, tabindex: "0", "aria-label": `Operations of replica ${replica}, newest first` });
    this.divider = createHtml("li", { class: "divider", "aria-label": "committed from here on" }, "committed");
    this.empty = createHtml("li", { class: "empty" });
    this.actions = createHtml("div", { class: "actions", hidden: true }, ...actions);
    this.element = applyColour(createHtml("article", { class: "column", "data-replica": replica, "aria-label": `Replica ${replica}` },
      createHtml("header", {}, createHtml("h3", {}, `Replica ${replica}`), this.role, this.counts, this.actions), this.list), replica);
  }

  draw(cluster, chosen) {
    const at = cluster.at(this.replica);
    const role = cluster.role(this.replica);
    setText(this.role, role);
    this.role.className = `role ${role === "leader" ? "leader" : at.live && role !== "follower" ? "isolated" : ""}`;
    const { now } = at;
    this.element.classList.toggle("down", !at.live);
    const counts = now ? [now.committed_length, now.tentative_length].map((each) => each.toLocaleString("en")) : ["–", "–"];
    if (this.shownCounts !== String(counts)) {
      this.shownCounts = String(counts);
      this.counts.replaceChildren(createHtml("b", {}, counts[1]), " tentative · ", createHtml("b", {}, counts[0]), " committed");
    }
    if (now) this.arrange(cluster, now);
    for (const [id, row] of this.rows) row.classList.toggle("same", id === chosen);
  }

  arrange(cluster, now) {
    const tentative = now.tentative.toReversed();
    const committed = now.committed.toReversed();
    const before = this.order ?? [];
    const order = [...tentative, ...committed].map((each) => each.id);
    const wanted = tentative.map((entry) => this.row(cluster, entry, "tentative"));
    wanted.push(this.divider);
    let below = now.committed_length;
    for (const entry of committed) {
      const missed = below - entry.place - 1;
      if (missed > 0) wanted.push(createHtml("li", { class: "empty" }, `${missed.toLocaleString("en")} more, not shown`));
      wanted.push(this.row(cluster, entry, "committed"));
      below = entry.place;
    }
    setText(this.empty, below ? `${below.toLocaleString("en")} earlier operations` : order.length ? "" : "No operations yet.");
    wanted.push(this.empty);
    this.order = order;
    const arranged = JSON.stringify([tentative.length, now.committed_length, ...order]);
    if (this.arranged === arranged) return;
    this.arranged = arranged;
    this.replaceRows(wanted, before, order);
  }

  /** Replace the rows and animate those that moved. */
  replaceRows(wanted, before, order) {
    const known = new Set(before);
    const fresh = order.filter((id) => !known.has(id));
    const at = performance.now();
    this.changes = [...this.changes.filter((each) => at - each < CHANGES_MS), at];
    const animate = before.length > 0 && fresh.length <= FRESH_MAX && this.changes.length <= CHANGES_MAX && !reducedMotion.matches;
    const tops = new Map();
    const top = this.list.scrollTop;
    if (animate) for (const row of this.list.children) tops.set(row, row.offsetTop);
    const focused = document.activeElement;
    const hadFocus = focused !== this.list && this.list.contains(focused);
    this.list.replaceChildren(...wanted);
    this.list.scrollTop = top;
    if (hadFocus && this.list.contains(focused)) focused.focus({ preventScroll: true });
    for (const id of [...this.rows.keys()]) if (!order.includes(id)) this.rows.delete(id);
    if (!animate) return;
    for (const row of wanted) {
      const distance = tops.has(row) ? tops.get(row) - row.offsetTop : 0;
      if (!distance) continue;
      row.classList.remove("moving");
      row.style.transform = `translateY(${distance}px)`;
      requestAnimationFrame(() => { row.classList.add("moving"); row.style.transform = ""; });
    }
    for (const id of fresh) flash(this.rows.get(id), "fresh", 500);
    for (const id of overtaken(before, order)) flash(this.rows.get(id), "moved", 1700);
  }

  row(cluster, entry, kind) {
    let row = this.rows.get(entry.id);
    if (!row) {
      const says = createHtml("span", { class: "says" });
      const details = createHtml("span", { class: "details" });
      row = createHtml("li", { "data-id": entry.id },
        createHtml("button", { type: "button", class: "entry", onclick: () => this.choose(entry.id) }, badge(issuer(entry.id), entry.strong), says, details));
      applyColour(row, issuer(entry.id));
      setText(says, entry.own ? OWN[entry.says] ?? entry.says : entry.says);
      this.rows.set(entry.id, row);
    }
    row.classList.toggle("tentative", kind === "tentative");
    row.classList.toggle("own", entry.own);
    const known = cluster.histories.get(entry.id);
    const response = entry.own ? null : known?.responses?.at(-1);
    row.classList.toggle("sorry", Boolean(response?.changed));
    row.classList.toggle("raised", Boolean(response?.raised));
    const rendered = JSON.stringify([kind, entry.runs, entry.place, response?.says, response?.changed]);
    if (row.dataset.rendered !== rendered) {
      row.dataset.rendered = rendered;
      row.querySelector(".details").replaceChildren(...this.details(entry, response));
      row.firstChild.setAttribute("aria-label", `${entry.says}, ${entry.strong ? "strong" : "weak"}, called at replica ${issuer(entry.id)}, ${kind}${response ? `, response ${response.says}` : ""}`);
    }
    return row;
  }

  details(entry, response) {
    const parts = [];
    if (response) parts.push(createHtml("span", { class: `value${response.changed ? " sorry" : ""}${response.raised ? " raised" : ""}`, title: responseTitle(response) }, `${response.raised ? "✗" : "→"} ${response.says}`));
    if (entry.runs > 1 && !entry.own) parts.push(createHtml("span", { class: "again", title: `executed ${entry.runs} times on this replica` }, `↻${entry.runs > 2 ? entry.runs - 1 : ""}`));
    if (entry.place !== undefined) parts.push(createHtml("span", { class: "position", title: "final position" }, `#${entry.place + 1}`));
    return parts;
  }
}

/** Explain the latest response of an operation. */
function responseTitle(response) {
  if (response.changed) return `the response changed to ${response.says}: an apology is due`;
  return response.raised ? `the operation raised ${response.says}` : "latest response";
}

const OWN = { "noop()": "no-op for weak calls" };

function flash(row, name, ms) {
  if (!row) return;
  row.classList.remove(name);
  void row.offsetWidth;
  row.classList.add(name);
  setTimeout(() => row.classList.remove(name), ms);
}

/** Return the retained rows whose relative order has changed. */
function overtaken(before, after) {
  const current = new Set(after);
  const old = before.filter((id) => current.has(id));
  const previous = new Set(old);
  const now = after.filter((id) => previous.has(id));
  return now.filter((id, n) => old[n] !== id);
}
