// Latency, throughput and tentative operations of the last two minutes, one point per second.

import { createSvg, createHtml } from "./dom.js";

const SECONDS = 120;
const WIDTH = 420;
const HEIGHT = 176;
const LEFT = 46;
const BOTTOM = 20;
const MERGE_MS = 3000; // events closer together than this share one sign
const SIGNS = "abcdefghijklmnopqrstuvwxyz";
// Dash patterns distinguish the lines for readers who cannot distinguish their colours.
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "1 4", "6 2 1 2"];
const WEAK = { colour: "var(--soft)", dash: "5 3" };
const STRONG = { colour: "var(--ink)", dash: "" };
const ofReplica = (replica) => ({ colour: `var(--replica-${replica % 8})`, dash: DASHES[replica % 8] });

export class History {
  constructor() {
    this.points = []; // one per second: {at, weak, strong, rates, tentative}
    this.events = []; // {at, kind, sign, texts}
    this.signs = 0;
    this.last = new Map();
  }

  note(kind, text) {
    const at = Date.now();
    const last = this.events.at(-1);
    if (last && at - last.at < MERGE_MS) {
      if (!last.texts.includes(text)) last.texts.push(text);
      if (last.kind !== kind) last.kind = "";
      return;
    }
    this.events.push({ at, kind, sign: SIGNS[this.signs++ % SIGNS.length], texts: [text] });
    if (this.events.length > 64) this.events.shift();
  }

  /** Return the events within the charts. */
  recentEvents() {
    return this.events.filter(({ at }) => Date.now() - at < SECONDS * 1000);
  }

  /** Append a point; call it every second. */
  sample(cluster) {
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
        if (count < 0) continue; // the replica was restarted
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

  /** Return the mean of the defined values of the last seconds, or null. */
  recent(name, seconds) {
    const values = this.points.slice(-seconds).map((each) => each[name]).filter((each) => each !== null);
    return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
  }
}

const total = (counts) => counts.reduce((a, b) => a + b, 0);

export function drawCharts(place, history, cluster) {
  const { points } = history;
  const series = (name) => points.map((each) => [each.at, each[name]]);
  const charts = [
    { title: "Latency, mean per second", scale: logarithmic, lines: [
      { label: "weak, tentative", ...WEAK, data: series("weak") },
      { label: "strong, stable", ...STRONG, data: series("strong") }] },
    { title: "Responses per second", scale: linear, lines: [
      { label: "weak", ...WEAK, data: series("weakly") },
      { label: "strong", ...STRONG, data: series("strongly") }] },
    { title: "Tentative operations", scale: linear, lines: cluster.members.map((replica) => (
      { label: `replica ${replica}`, ...ofReplica(replica), data: points.map((each) => [each.at, each.tentative[replica] ?? null]) })) },
  ];
  place.replaceChildren(...charts.map((chart) => drawChart(chart, history.recentEvents())));
}

/** Draw the legend of the signs in the charts. */
export function drawEvents(place, history) {
  const events = history.recentEvents();
  const rendered = JSON.stringify(events);
  if (place.dataset.rendered === rendered) return;
  place.dataset.rendered = rendered;
  if (!events.length) { place.replaceChildren(createHtml("li", {}, "Lost and restored replicas and links, and changes of the leader, are marked in the charts and listed here.")); return; }
  place.replaceChildren(...events.map(({ at, kind, sign, texts }) => createHtml("li", { class: kind },
    createHtml("b", {}, sign), ` ${new Date(at).toLocaleTimeString()} `, texts.join(", "))));
}

function drawChart({ title, scale, lines }, events) {
  const end = Date.now();
  const x = (at) => LEFT + (1 - (end - at) / (SECONDS * 1000)) * (WIDTH - LEFT - 4);
  const values = lines.flatMap(({ data }) => data.map(([, value]) => value)).filter((each) => each !== null);
  const { y, ticks } = scale(values);
  const svg = createSvg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
  for (const [value, label] of ticks) {
    svg.append(createSvg("line", { class: "grid", x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value) }),
      createSvg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, label));
  }
  for (const [ago, label] of [[120, "2 min ago"], [60, "1 min"], [0, "now"]]) {
    svg.append(createSvg("text", { x: x(end - ago * 1000), y: HEIGHT - 3, "text-anchor": ago === 120 ? "start" : ago ? "middle" : "end" }, label));
  }
  for (const { at, kind, sign, texts } of events) {
    svg.append(createSvg("line", { class: `event ${kind}`, x1: x(at), x2: x(at), y1: 4, y2: HEIGHT - BOTTOM }, createSvg("title", {}, texts.join(", "))),
      createSvg("text", { class: `sign ${kind}`, x: x(at), y: 0, "text-anchor": "middle" }, sign));
  }
  for (const line of lines) svg.append(...drawLine(line.data.filter(([at]) => end - at <= SECONDS * 1000), x, y, line));
  const keys = lines.map(({ label, colour, dash }) => createHtml("span", { class: "key" },
    createSvg("svg", { viewBox: "0 0 26 6", width: 26, height: 6, "aria-hidden": "true" }, stroked("line", colour, dash, { x1: 0, x2: 26, y1: 3, y2: 3 })), label));
  return createHtml("figure", { class: "chart" }, createHtml("figcaption", {}, createHtml("b", {}, title), ...keys), svg);
}

/** Draw segments of defined values, and a dot for an isolated point. */
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
  const mark = createSvg(name, { class: "of", "stroke-dasharray": dash || null, ...attributes });
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
