// Latency, throughput and what is tentative, over the last two minutes: a point for each second.

import { drawn, made } from "./made.js";

const SECONDS = 120;
const WIDTH = 420;
const HEIGHT = 176;
const LEFT = 46;
const BOTTOM = 20;
const TOGETHER_MS = 3000; // what happens within so long gets one sign
const SIGNS = "abcdefghijklmnopqrstuvwxyz";
// Lines differ in more than their colours, which not everybody can tell apart.
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "1 4", "6 2 1 2"];
const WEAK = { colour: "var(--soft)", dash: "5 3" };
const STRONG = { colour: "var(--ink)", dash: "" };
const ofReplica = (replica) => ({ colour: `var(--replica-${replica % 8})`, dash: DASHES[replica % 8] });

export class History {
  constructor() {
    this.points = []; // one for each second: {at, weak, strong, rates, tentative}
    this.happened = []; // {at, kind, sign, what}
    this.signs = 0;
    this.last = new Map();
  }

  note(kind, what) {
    const at = Date.now();
    const last = this.happened.at(-1);
    if (last && at - last.at < TOGETHER_MS) {
      if (!last.what.includes(what)) last.what.push(what);
      if (last.kind !== kind) last.kind = "";
      return;
    }
    this.happened.push({ at, kind, sign: SIGNS[this.signs++ % SIGNS.length], what: [what] });
    if (this.happened.length > 64) this.happened.shift();
  }

  /** What is still in the charts. */
  lately() {
    return this.happened.filter(({ at }) => Date.now() - at < SECONDS * 1000);
  }

  /** To be called every second. */
  take(cluster) {
    const sums = { weak_tentative: [0, 0], strong_stable: [0, 0] };
    const tentative = {};
    for (const replica of cluster.members) {
      const { now, live } = cluster.at(replica);
      if (!now || !live) { this.last.delete(replica); continue; }
      tentative[replica] = now.tentative_length;
      const before = this.last.get(replica);
      this.last.set(replica, now.calls);
      if (!before) continue;
      for (const kind of Object.keys(sums)) {
        const count = total(now.calls[kind].counts) - total(before[kind].counts);
        if (count < 0) continue; // it began anew
        sums[kind][0] += count;
        sums[kind][1] += now.calls[kind].total_s - before[kind].total_s;
      }
    }
    const mean = ([count, seconds]) => (count ? (seconds / count) * 1000 : null);
    this.points.push({
      at: Date.now(), tentative,
      weak: mean(sums.weak_tentative), strong: mean(sums.strong_stable),
      weakly: sums.weak_tentative[0], strongly: sums.strong_stable[0],
    });
    if (this.points.length > SECONDS + 1) this.points.shift();
  }

  /** The mean over the last seconds, of what there was. */
  recent(name, seconds) {
    const found = this.points.slice(-seconds).map((each) => each[name]).filter((each) => each !== null);
    return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
  }
}

const total = (counts) => counts.reduce((a, b) => a + b, 0);

export function drawCharts(place, history, cluster) {
  const { points } = history;
  const series = (name) => points.map((each) => [each.at, each[name]]);
  const charts = [
    { title: "Latency, mean of each second", scale: logarithmic, lines: [
      { label: "weak, tentative", ...WEAK, data: series("weak") },
      { label: "strong, stable", ...STRONG, data: series("strong") }] },
    { title: "Answers per second", scale: linear, lines: [
      { label: "weak", ...WEAK, data: series("weakly") },
      { label: "strong", ...STRONG, data: series("strongly") }] },
    { title: "Tentative operations", scale: linear, lines: cluster.members.map((replica) => (
      { label: `replica ${replica}`, ...ofReplica(replica), data: points.map((each) => [each.at, each.tentative[replica] ?? null]) })) },
  ];
  place.replaceChildren(...charts.map((chart) => drawChart(chart, history.lately())));
}

/** What the signs in the charts stand for. */
export function drawEvents(place, history) {
  const happened = history.lately();
  const said = JSON.stringify(happened);
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  if (!happened.length) { place.replaceChildren(made("li", {}, "When a replica or a link is lost, or is back, or another one leads, it is marked in the charts and told here.")); return; }
  place.replaceChildren(...happened.map(({ at, kind, sign, what }) => made("li", { class: kind },
    made("b", {}, sign), ` ${new Date(at).toLocaleTimeString()} `, what.join(", "))));
}

function drawChart({ title, scale, lines }, happened) {
  const end = Date.now();
  const x = (at) => LEFT + (1 - (end - at) / (SECONDS * 1000)) * (WIDTH - LEFT - 4);
  const values = lines.flatMap(({ data }) => data.map(([, value]) => value)).filter((each) => each !== null);
  const { y, ticks } = scale(values);
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
  for (const [value, label] of ticks) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value) }),
      drawn("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, label));
  }
  for (const [ago, label] of [[120, "2 min ago"], [60, "1 min"], [0, "now"]]) {
    svg.append(drawn("text", { x: x(end - ago * 1000), y: HEIGHT - 3, "text-anchor": ago === 120 ? "start" : ago ? "middle" : "end" }, label));
  }
  for (const { at, kind, sign, what } of happened) {
    svg.append(drawn("line", { class: `happened ${kind}`, x1: x(at), x2: x(at), y1: 4, y2: HEIGHT - BOTTOM }, drawn("title", {}, what.join(", "))),
      drawn("text", { class: `sign ${kind}`, x: x(at), y: 0, "text-anchor": "middle" }, sign));
  }
  for (const line of lines) svg.append(...drawLine(line.data.filter(([at]) => end - at <= SECONDS * 1000), x, y, line));
  const keys = lines.map(({ label, colour, dash }) => made("span", { class: "key" },
    drawn("svg", { viewBox: "0 0 26 6", width: 26, height: 6, "aria-hidden": "true" }, stroked("line", colour, dash, { x1: 0, x2: 26, y1: 3, y2: 3 })), label));
  return made("figure", { class: "chart" }, made("figcaption", {}, made("b", {}, title), ...keys), svg);
}

/** Pieces where there is something, and a dot where a point stands alone. */
function drawLine(data, x, y, { colour, dash }) {
  const marks = [];
  let piece = [];
  const finish = () => {
    if (piece.length === 1) marks.push(stroked("circle", colour, "", { class: "dot", cx: piece[0][0], cy: piece[0][1], r: 2.6 }));
    else if (piece.length) marks.push(stroked("polyline", colour, dash, { points: piece.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" ") }));
    piece = [];
  };
  for (const [at, value] of data) {
    if (value === null) finish();
    else piece.push([x(at), y(value)]);
  }
  finish();
  return marks;
}

function stroked(name, colour, dash, attributes) {
  const mark = drawn(name, { class: "of", "stroke-dasharray": dash || null, ...attributes });
  mark.style.setProperty("--of", colour);
  return mark;
}

const inside = (part) => 6 + (1 - Math.min(1, Math.max(0, part))) * (HEIGHT - BOTTOM - 12);

function logarithmic(values) {
  const low = Math.min(-1, Math.floor(Math.log10(Math.min(...values, 1))));
  const high = Math.max(2, Math.ceil(Math.log10(Math.max(...values, 1))));
  const ticks = [];
  for (let n = low; n <= high; n += high - low > 5 ? 2 : 1) ticks.push([10 ** n, n >= 3 ? `${10 ** (n - 3)} s` : `${10 ** n} ms`]);
  return { y: (value) => inside((Math.log10(Math.max(value, 1e-3)) - low) / (high - low)), ticks };
}

function linear(values) {
  const most = Math.max(4, ...values);
  const step = [1, 2, 5, 10].map((n) => n * 10 ** Math.floor(Math.log10(most / 4))).find((n) => most / n <= 5);
  const top = Math.ceil(most / step) * step;
  const ticks = [];
  for (let value = 0; value <= top; value += step) ticks.push([value, value.toLocaleString("en")]);
  return { y: (value) => inside(value / top), ticks };
}
