// Entry point of the live page: follows every replica and draws the reported states.

import { drawCharts, drawEvents, History } from "./charts.js";
import { changedOperations, drawOperation } from "./operation.js";
import { Column } from "./lists.js";
import { badge, createHtml, setText } from "./dom.js";
import { ClusterMap } from "./map.js";
import { follow, hasToken, useToken } from "./streams.js";
import { Playground } from "./playground.js";
import { SqlBox } from "./sql.js";
import { duration, headline, joinList } from "./text.js";

const byId = (id) => document.getElementById(id);
const HISTORIES_MAX = 2000;
const CONNECT_MS = 1000; // a replica without data by then counts as unreachable
const UNREACHABLE = { live: false, now: null, address: null };

// --- state -----------------------------------------------------------------------------------

const cluster = {
  about: null,
  trial: null,
  members: [],
  replicas: new Map(),
  histories: new Map(), // operations by identifier, as their issuing replica reports them
  at(replica) { return this.replicas.get(replica) ?? UNREACHABLE; },
  living() { return this.members.filter((each) => this.at(each).live); },
  pairs() { return this.members.flatMap((one, n) => this.members.slice(n + 1).map((other) => [one, other])); },
  /** True if `creek up` runs one of these replicas and can inject faults between them. */
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
    if (!live) return now || address !== null ? "unreachable" : "address unknown";
    if (now.problem) return "failed";
    if (now.waits_for !== null) return "joining";
    if (this.members.length > 1 && !now.connected.length) return "isolated";
    if (now.leader === replica) return "leader";
    return now.leader === null ? "no leader" : "follower";
  },
};

const history = new History();
let chosen = null;
let due = false;

function scheduleDraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

function choose(id) {
  chosen = id;
  scheduleDraw();
}

// --- streams ---------------------------------------------------------------------------------

function addReplica(replica, address) {
  if (cluster.replicas.has(replica)) return;
  const known = { live: false, now: null, address, connecting: true };
  cluster.replicas.set(replica, known);
  setTimeout(() => { known.connecting = false; scheduleDraw(); }, CONNECT_MS);
  follow(address, handlersFor(() => replica));
}

function handlersFor(which) {
  return {
    about: applyDescription,
    now(now) {
      const known = cluster.replicas.get(which());
      const before = known.now;
      recordEvents(which(), known, now);
      Object.assign(known, { live: true, now, connecting: false });
      if (!before || now.committed !== before.committed) recordOperations(now);
      scheduleDraw();
    },
    lost(status) {
      if (status === 401) askForToken();
      const known = cluster.replicas.get(which());
      if (known?.live) history.note("bad", `replica ${which()} unreachable`);
      if (known) Object.assign(known, { live: false, connecting: false });
      scheduleDraw();
    },
  };
}

function askForToken() {
  byId("token").hidden = false;
  setText(byId("token").querySelector("label"), hasToken() ? "The cluster rejected this token; try another." : "This cluster requires a token.");
}

function applyDescription(about) {
  byId("token").hidden = true;
  cluster.about ??= about;
  cluster.trial = about.trial ?? cluster.trial;
  cluster.members = about.members;
  for (const [replica, address] of Object.entries(about.pages)) addReplica(Number(replica), address);
}

/** Record the operations that a replica reports; entries of the issuing replica, with responses, win. */
function recordOperations(now) {
  for (const entry of [...now.committed, ...now.tentative]) {
    const known = cluster.histories.get(entry.id);
    if (entry.responses || !known) cluster.histories.set(entry.id, entry);
  }
  while (cluster.histories.size > HISTORIES_MAX) cluster.histories.delete(cluster.histories.keys().next().value);
}

/** Record the events that the charts mark. */
function recordEvents(replica, known, now) {
  if (known.now && !known.live) history.note("good", `replica ${replica} reachable`);
  if (!known.live || !known.now) return;
  const [before, after] = [known.now.cut, now.cut];
  for (const each of after) if (!before.includes(each) && each > replica) history.note("bad", `${replica}–${each} cut`);
  for (const each of before) if (!after.includes(each) && each > replica) history.note("good", `${replica}–${each} healed`);
  if (now.leader === replica && known.now.leader !== replica) history.note("", `replica ${replica} elected`);
}

// --- drawing ---------------------------------------------------------------------------------

const playground = new Playground(cluster, choose);
const sqlBox = new SqlBox(cluster, choose);
const map = new ClusterMap(byId("map"), cluster, (link) => playground.press(link));
let columns = [];

/** True before the first drawing, while a replica may still connect. */
function isConnecting() {
  return !document.documentElement.dataset.drawn && cluster.members.some((each) => cluster.at(each).connecting);
}

function draw() {
  if (!cluster.about || isConnecting()) return;
  const { about } = cluster;
  setText(byId("where"), `cluster ‘${about.cluster}’ · ${about.datatype}`);
  const [title, lead] = headline(cluster);
  setText(byId("headline"), title);
  setText(byId("lead"), lead);
  const pageTitle = `${title.replace(/\.$/, "")} · Creek`;
  if (document.title !== pageTitle) document.title = pageTitle;
  map.draw();
  if (columns.map((each) => each.replica).join() !== cluster.members.join()) {
    columns = cluster.members.map((each) => new Column(each, playground.actionsFor(each), choose));
    byId("columns").replaceChildren(...columns.map((each) => each.element));
  }
  for (const column of columns) column.draw(cluster, chosen);
  drawOperation(byId("history"), cluster, chosen, choose);
  playground.draw(columns);
  sqlBox.draw();
  drawNumbers();
  drawTable();
  byId("programs").hidden = hasToken(); // a link cannot send the token
  document.documentElement.dataset.drawn = "all";
}

function drawNumbers() {
  const living = cluster.living().map((each) => cluster.at(each).now);
  const most = (name) => (living.length ? Math.max(...living.map((now) => now[name])).toLocaleString("en") : "–");
  const sum = (name) => living.reduce((total, now) => total + now[name], 0).toLocaleString("en");
  const rate = (history.recent("weakly", 5) ?? 0) + (history.recent("strongly", 5) ?? 0);
  const facts = [
    ["committed", most("committed_length"), "", "Operations with a final position, on the replica with the most"],
    ["tentative", most("tentative_length"), "", "Operations without a final position, on the replica with the most"],
    ["weak latency", ...duration(history.recent("weak", 30)), "Time to the first response of a weak call: mean of the last 30 seconds"],
    ["strong latency", ...duration(history.recent("strong", 30)), "Time to the stable response of a strong call: mean of the last 30 seconds"],
    ["responses", rate >= 10 ? rate.toFixed(0) : rate.toFixed(1), "/s", "First responses of weak calls and stable responses of strong calls: mean of the last 5 seconds"],
    ["apologies", sum("apologies"), "", "Weak calls whose final response differed from the tentative one, since the start of the replicas"],
  ];
  const listApologies = () => { choose(null); byId("lists").scrollIntoView({ behavior: "smooth" }); };
  const place = byId("numbers");
  if (!place.children.length) place.replaceChildren(...facts.map(([name, , , about]) => createHtml("div", { title: about }, createHtml("dt", {}, name), createHtml("dd", {}),
    name === "apologies" ? createHtml("button", { type: "button", class: "act", id: "apologies", onclick: listApologies }, "show") : null)));
  byId("apologies").hidden = !changedOperations(cluster).length;
  facts.forEach(([, value, unit], n) => {
    const shown = place.children[n].querySelector("dd");
    if (shown.dataset.rendered === value + unit) return;
    shown.dataset.rendered = value + unit;
    shown.replaceChildren(value, createHtml("span", { class: "unit" }, unit && ` ${unit}`));
  });
}

function drawTable() {
  const rows = cluster.members.map((replica) => {
    const { live, now, address } = cluster.at(replica);
    const cells = live ? [
      cluster.role(replica), now.connected.length ? joinList(now.connected) : "none",
      now.committed_length, now.tentative_length, now.lag, now.undecided, now.reexecutions, now.apologies,
      Object.entries(now.refused).map(([reason, number]) => `${reason.replaceAll("_", " ")} ${number}`).join(", ") || "none",
    ] : [cluster.role(replica), ...Array(8).fill("–")];
    return [replica, address, cells];
  });
  const body = byId("table").tBodies[0];
  const rendered = JSON.stringify(rows);
  if (body.dataset.rendered === rendered) return;
  body.dataset.rendered = rendered;
  body.replaceChildren(...rows.map(([replica, address, cells]) => createHtml("tr", {},
    createHtml("th", { scope: "row" }, badge(replica, false), " ", address ? createHtml("a", { href: address }, address.replace(/^\w+:\/\//, "")) : ""),
    ...cells.map((cell, n) => createHtml("td", { class: n > 1 && n < 8 ? "n" : n === 8 ? "refused" : "" }, typeof cell === "number" ? cell.toLocaleString("en") : cell)))));
}

setInterval(() => {
  history.sample(cluster);
  if (!document.hidden && cluster.about) { drawCharts(byId("charts"), history, cluster); drawEvents(byId("events"), history); drawNumbers(); }
}, 1000);

// --- theme and token -------------------------------------------------------------------------

const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
try {
  const stored = localStorage.getItem("creek-theme");
  if (["light", "dark"].includes(stored)) root.dataset.theme = stored;
} catch { /* no storage in a private window */ }
byId("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("creek-theme", root.dataset.theme); } catch { /* no storage in a private window */ }
});
byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token-text").value);
});

// The replica that served this page reports its identity and the addresses of the others.
let served = null;
follow(location.origin, {
  about(about) {
    served ??= about.replica;
    if (!cluster.replicas.has(served)) cluster.replicas.set(served, { live: false, now: null, address: location.origin });
    applyDescription(about);
  },
  ...Object.fromEntries(["now", "lost"].map((name) => [name, (data) => handlersFor(() => served)[name](data)])),
});
drawOperation(byId("history"), cluster, null, choose);
