// What each replica knows, newest first: tentative above, committed below. What moves is seen moving.

import { badge, coloured, issuer, made, say } from "./made.js";

const FRESH_MAX = 6; // with more at once nobody could follow them with their eyes
const CHANGES_MAX = 5; // nor with more changes within so long: under load, rows are just where they are
const CHANGES_MS = 2000;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Column {
  constructor(replica, acts, choose) {
    this.replica = replica;
    this.choose = choose;
    this.rows = new Map();
    this.changes = [];
    this.role = made("span", { class: "role" });
    this.counts = made("p", { class: "counts" });
    this.list = made("ol", { class: "list", reversed: true, tabindex: "0", "aria-label": `Operations that replica ${replica} knows, newest first` });
    this.shore = made("li", { class: "shore", "aria-label": "committed from here on" }, "committed");
    this.empty = made("li", { class: "empty" });
    this.acts = made("div", { class: "acts", hidden: true }, ...acts);
    this.element = coloured(made("article", { class: "column", "data-replica": replica, "aria-label": `Replica ${replica}` },
      made("header", {}, made("h3", {}, `Replica ${replica}`), this.role, this.counts, this.acts), this.list), replica);
  }

  draw(cluster, chosen) {
    const at = cluster.at(this.replica);
    const role = cluster.role(this.replica);
    say(this.role, role);
    this.role.className = `role ${role === "leads" ? "leads" : at.live && role !== "follows" ? "alone" : ""}`;
    const { now } = at;
    this.element.classList.toggle("down", !at.live);
    const counts = now ? [now.committed_length, now.tentative_length].map((each) => each.toLocaleString("en")) : ["–", "–"];
    if (this.told !== String(counts)) {
      this.told = String(counts);
      this.counts.replaceChildren(made("b", {}, counts[1]), " tentative · ", made("b", {}, counts[0]), " committed");
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
    wanted.push(this.shore);
    let below = now.committed_length;
    for (const entry of committed) {
      const missed = below - entry.place - 1;
      if (missed > 0) wanted.push(made("li", { class: "empty" }, `${missed.toLocaleString("en")} more, too fast to be shown`));
      wanted.push(this.row(cluster, entry, "committed"));
      below = entry.place;
    }
    say(this.empty, below ? `${below.toLocaleString("en")} earlier ones` : order.length ? "" : "Nothing yet.");
    wanted.push(this.empty);
    this.order = order;
    const arranged = JSON.stringify([tentative.length, now.committed_length, ...order]);
    if (this.arranged === arranged) return;
    this.arranged = arranged;
    this.place(wanted, before, order);
  }

  /** Put the rows in their places, from where they are: the eye goes with them. */
  place(wanted, before, order) {
    const known = new Set(before);
    const fresh = order.filter((id) => !known.has(id));
    const at = performance.now();
    this.changes = [...this.changes.filter((each) => at - each < CHANGES_MS), at];
    const follow = before.length > 0 && fresh.length <= FRESH_MAX && this.changes.length <= CHANGES_MAX && !still.matches;
    const tops = new Map();
    const top = this.list.scrollTop;
    if (follow) for (const row of this.list.children) tops.set(row, row.offsetTop);
    const focused = document.activeElement;
    const held = focused !== this.list && this.list.contains(focused);
    this.list.replaceChildren(...wanted);
    this.list.scrollTop = top;
    if (held && this.list.contains(focused)) focused.focus({ preventScroll: true });
    for (const id of [...this.rows.keys()]) if (!order.includes(id)) this.rows.delete(id);
    if (!follow) return;
    for (const row of wanted) {
      const gone = tops.has(row) ? tops.get(row) - row.offsetTop : 0;
      if (!gone) continue;
      row.classList.remove("moving");
      row.style.transform = `translateY(${gone}px)`;
      requestAnimationFrame(() => { row.classList.add("moving"); row.style.transform = ""; });
    }
    for (const id of fresh) flash(this.rows.get(id), "fresh", 500);
    for (const id of overtaken(before, order)) flash(this.rows.get(id), "moved", 1700);
  }

  row(cluster, entry, kind) {
    let row = this.rows.get(entry.id);
    if (!row) {
      const says = made("span", { class: "says" });
      const tells = made("span", { class: "tells" });
      row = made("li", { "data-id": entry.id },
        made("button", { type: "button", class: "entry", onclick: () => this.choose(entry.id) }, badge(issuer(entry.id), entry.strong), says, tells));
      coloured(row, issuer(entry.id));
      say(says, entry.own ? OWN[entry.says] ?? entry.says : entry.says);
      this.rows.set(entry.id, row);
    }
    row.classList.toggle("tentative", kind === "tentative");
    row.classList.toggle("own", entry.own);
    const life = cluster.lives.get(entry.id);
    const answer = entry.own ? null : life?.answers?.at(-1);
    const telling = JSON.stringify([kind, entry.runs, entry.place, answer?.says, answer?.changed]);
    if (row.dataset.telling !== telling) {
      row.dataset.telling = telling;
      row.querySelector(".tells").replaceChildren(...this.tells(entry, answer));
      row.firstChild.setAttribute("aria-label", `${entry.says}, ${entry.strong ? "strong" : "weak"}, called at replica ${issuer(entry.id)}, ${kind}${answer ? `, answered ${answer.says}` : ""}`);
    }
    return row;
  }

  tells(entry, answer) {
    const found = [];
    if (answer) found.push(made("span", { class: answer.changed ? "value sorry" : "value", title: answer.changed ? "changed: an apology is due" : "the answer, as far as it is known" }, `→ ${answer.says}`));
    if (entry.runs > 1 && !entry.own) found.push(made("span", { class: "again", title: `executed ${entry.runs} times here` }, `↻${entry.runs > 2 ? entry.runs - 1 : ""}`));
    if (entry.place !== undefined) found.push(made("span", { class: "place", title: "its place, for good" }, `#${entry.place + 1}`));
    return found;
  }
}

const OWN = { "noop()": "no-op for weak ones" };

function flash(row, name, ms) {
  if (!row) return;
  row.classList.remove(name);
  void row.offsetWidth;
  row.classList.add(name);
  setTimeout(() => row.classList.remove(name), ms);
}

/** Those that are in another order than before, among those that were there before. */
function overtaken(before, after) {
  const kept = new Set(after);
  const old = before.filter((id) => kept.has(id));
  const was = new Set(old);
  const now = after.filter((id) => was.has(id));
  return now.filter((id, n) => old[n] !== id);
}
