// What the page does: follows every replica, and shows what they say.

import { drawCharts, drawEvents, History } from "./charts.js";
import { drawLife } from "./life.js";
import { Column } from "./lists.js";
import { badge, made, say } from "./made.js";
import { Map_ } from "./map.js";
import { follow, hasToken, useToken } from "./streams.js";
import { Trial } from "./trial.js";
import { duration, headline, listed } from "./words.js";

const byId = (id) => document.getElementById(id);
const LIVES_MAX = 2000;
const ASKED_MS = 1000; // a replica that has not said anything by then does not answer
const SILENT = { live: false, now: null, address: null };

// --- what is known ---------------------------------------------------------------------------

const cluster = {
  about: null,
  trial: null,
  members: [],
  replicas: new Map(),
  lives: new Map(), // operations by identifier, as the replica where they were called tells of them
  at(replica) { return this.replicas.get(replica) ?? SILENT; },
  living() { return this.members.filter((each) => this.at(each).live); },
  pairs() { return this.members.flatMap((one, n) => this.members.slice(n + 1).map((other) => [one, other])); },
  /** Has `creek up` started one of these? Then it can break what they have in common. */
  breakable(...replicas) { return replicas.some((each) => this.trial?.replicas.includes(each)); },
  linked(one, other) {
    const [a, b] = [this.at(one), this.at(other)];
    return a.live && b.live && a.now.connected.includes(other) && b.now.connected.includes(one);
  },
  isCut(one, other) {
    return [[one, other], [other, one]].some(([a, b]) => this.at(a).now?.cut.includes(b));
  },
  role(replica) {
    const { live, now, address } = this.at(replica);
    if (!live) return now || address !== null ? "does not answer" : "unknown here";
    if (now.problem) return "cannot go on";
    if (now.waits_for !== null) return "waits to be let in";
    if (this.members.length > 1 && !now.connected.length) return "alone";
    if (now.leader === replica) return "leads";
    return now.leader === null ? "without a leader" : "follows";
  },
};

const history = new History();
let chosen = null;
let due = false;

function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

function choose(id) {
  chosen = id;
  soon();
}

// --- hearing ---------------------------------------------------------------------------------

function meet(replica, address) {
  if (cluster.replicas.has(replica)) return;
  const known = { live: false, now: null, address, asked: true };
  cluster.replicas.set(replica, known);
  setTimeout(() => { known.asked = false; soon(); }, ASKED_MS);
  follow(address, hearing(() => replica));
}

function hearing(which) {
  return {
    about: learn,
    now(now) {
      const known = cluster.replicas.get(which());
      const before = known.now;
      compare(which(), known, now);
      Object.assign(known, { live: true, now, asked: false });
      if (!before || now.committed !== before.committed) remember(which(), now);
      soon();
    },
    lost(status) {
      if (status === 401) askForToken();
      const known = cluster.replicas.get(which());
      if (known?.live) history.note("bad", `replica ${which()} does not answer`);
      if (known) Object.assign(known, { live: false, asked: false });
      soon();
    },
  };
}

function askForToken() {
  byId("token").hidden = false;
  say(byId("token").querySelector("label"), hasToken() ? "The cluster does not know this token: try another." : "This cluster asks for a token.");
}

function learn(about) {
  byId("token").hidden = true;
  cluster.about ??= about;
  cluster.trial = about.trial ?? cluster.trial;
  cluster.members = about.members;
  for (const [replica, address] of Object.entries(about.pages)) meet(Number(replica), address);
}

/** What a replica tells of calls that were made there, and of others as long as nobody tells more. */
function remember(replica, now) {
  for (const entry of [...now.committed, ...now.tentative]) {
    const known = cluster.lives.get(entry.id);
    if (entry.answers || !known) cluster.lives.set(entry.id, entry);
  }
  while (cluster.lives.size > LIVES_MAX) cluster.lives.delete(cluster.lives.keys().next().value);
}

/** Notes what is worth a mark in the charts. */
function compare(replica, known, now) {
  if (known.now && !known.live) history.note("good", `replica ${replica} is back`);
  if (!known.live || !known.now) return;
  const [was, is] = [known.now.cut, now.cut];
  for (const each of is) if (!was.includes(each) && each > replica) history.note("bad", `${replica}–${each} cut`);
  for (const each of was) if (!is.includes(each) && each > replica) history.note("good", `${replica}–${each} healed`);
  if (now.leader === replica && known.now.leader !== replica) history.note("", `replica ${replica} leads`);
}

// --- showing ---------------------------------------------------------------------------------

const trial = new Trial(cluster, choose);
const map = new Map_(byId("map"), cluster, (link) => trial.press(link));
let columns = [];

/** Is somebody still to say whether they are there? At the beginning nobody is called silent before. */
function early() {
  return !document.documentElement.dataset.drawn && cluster.members.some((each) => cluster.at(each).asked);
}

function draw() {
  if (!cluster.about || early()) return;
  const { about } = cluster;
  say(byId("where"), `cluster ‘${about.cluster}’ · ${about.datatype}`);
  const [title, lead] = headline(cluster);
  say(byId("headline"), title);
  say(byId("lead"), lead);
  const named = `${title.replace(/\.$/, "")} · Creek`;
  if (document.title !== named) document.title = named;
  map.draw();
  if (columns.map((each) => each.replica).join() !== cluster.members.join()) {
    columns = cluster.members.map((each) => new Column(each, trial.actsFor(each), choose));
    byId("columns").replaceChildren(...columns.map((each) => each.element));
  }
  for (const column of columns) column.draw(cluster, chosen);
  drawLife(byId("life"), cluster, chosen);
  trial.draw(columns);
  drawNumbers();
  drawTable();
  byId("programs").hidden = hasToken(); // which a link does not bring
  document.documentElement.dataset.drawn = "all";
}

function drawNumbers() {
  const living = cluster.living().map((each) => cluster.at(each).now);
  const most = (name) => (living.length ? Math.max(...living.map((now) => now[name])).toLocaleString("en") : "–");
  const sum = (name) => living.reduce((total, now) => total + now[name], 0).toLocaleString("en");
  const rate = (history.recent("weakly", 5) ?? 0) + (history.recent("strongly", 5) ?? 0);
  const facts = [
    ["committed", most("committed_length"), "", "Operations with a final place, at the replica that has most of them"],
    ["tentative, at most", most("tentative_length"), "", "Operations without a final place, at the replica that has most of them"],
    ["weak, until answered", ...duration(history.recent("weak", 30)), "How long a weak call waits for its first answer: the mean of the last 30 seconds"],
    ["strong, until stable", ...duration(history.recent("strong", 30)), "How long a strong call waits for the answer that never changes: the mean of the last 30 seconds"],
    ["answers", rate >= 10 ? rate.toFixed(0) : rate.toFixed(1), "/s", "Weak calls that were answered and strong ones that became stable: the mean of the last 5 seconds"],
    ["apologies", sum("apologies"), "", "Weak calls that ended with another answer than their first, since the replicas were started"],
  ];
  const place = byId("numbers");
  if (!place.children.length) place.replaceChildren(...facts.map(([name, , , about]) => made("div", { title: about }, made("dt", {}, name), made("dd", {}))));
  facts.forEach(([, value, unit], n) => {
    const shown = place.children[n].lastChild;
    if (shown.dataset.said === value + unit) return;
    shown.dataset.said = value + unit;
    shown.replaceChildren(value, made("span", { class: "unit" }, unit && ` ${unit}`));
  });
}

function drawTable() {
  const rows = cluster.members.map((replica) => {
    const { live, now, address } = cluster.at(replica);
    const cells = live ? [
      cluster.role(replica), now.connected.length ? listed(now.connected) : "nobody",
      now.committed_length, now.tentative_length, now.lag, now.undecided, now.reexecutions, now.apologies,
      Object.entries(now.refused).map(([reason, number]) => `${reason.replaceAll("_", " ")} ${number}`).join(", ") || "none",
    ] : [cluster.role(replica), ...Array(8).fill("–")];
    return [replica, address, cells];
  });
  const body = byId("table").tBodies[0];
  const said = JSON.stringify(rows);
  if (body.dataset.said === said) return;
  body.dataset.said = said;
  body.replaceChildren(...rows.map(([replica, address, cells]) => made("tr", {},
    made("th", { scope: "row" }, badge(replica, false), " ", address ? made("a", { href: address }, address.replace(/^\w+:\/\//, "")) : ""),
    ...cells.map((cell, n) => made("td", { class: n > 1 && n < 8 ? "n" : n === 8 ? "refused" : "" }, typeof cell === "number" ? cell.toLocaleString("en") : cell)))));
}

setInterval(() => {
  history.take(cluster);
  if (!document.hidden && cluster.about) { drawCharts(byId("charts"), history, cluster); drawEvents(byId("events"), history); drawNumbers(); }
}, 1000);

// --- light and dark, and a token -------------------------------------------------------------

const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
try {
  const stored = localStorage.getItem("creek-theme");
  if (["light", "dark"].includes(stored)) root.dataset.theme = stored;
} catch { /* a private window */ }
byId("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("creek-theme", root.dataset.theme); } catch { /* a private window */ }
});
byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token-text").value);
});

// The replica that served this page says who it is, and who the others are.
let served = null;
follow(location.origin, {
  about(about) {
    served ??= about.replica;
    if (!cluster.replicas.has(served)) cluster.replicas.set(served, { live: false, now: null, address: location.origin });
    learn(about);
  },
  ...Object.fromEntries(["now", "lost"].map((name) => [name, (data) => hearing(() => served)[name](data)])),
});
drawLife(byId("life"), cluster, null);
