// Script of the page: draws the charts and handles tooltips, legends, zooming and filtering.
"use strict";

const charts = JSON.parse(document.getElementById("charts").textContent);
const drawn = new Map(); // by chart key: the view, its full domain and the reader's choices

// --- light and dark --------------------------------------------------------------------------

const root = document.documentElement;
const stored = {
  get() { try { return localStorage.getItem("creek-theme"); } catch { return null; } },
  set(value) { try { localStorage.setItem("creek-theme", value); } catch { /* a private window */ } },
};
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
if (["light", "dark"].includes(stored.get())) root.dataset.theme = stored.get();
const themeButton = document.getElementById("theme");
const labelTheme = () => themeButton.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"}`);
themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  stored.set(root.dataset.theme);
  labelTheme();
});
prefersDark.addEventListener("change", labelTheme);
labelTheme();

// --- tooltips ----------------------------------------------------------------------------------

const tooltip = document.getElementById("tooltip");

function showTooltip(_handler, event, item, value) {
  // Between marks, Vega passes the Voronoi cell of the closest mark; its datum is that mark.
  const mark = item?.isVoronoi ? item.datum : item;
  const content = mark?.tooltip ?? value;
  if (!value || !content || typeof content !== "object") {
    tooltip.hidden = true;
    return;
  }
  const { line, ...facts } = content;
  const title = document.createElement("p");
  title.textContent = line;
  title.style.borderColor = mark?.stroke ?? mark?.fill ?? "";
  const list = document.createElement("dl");
  for (const [name, fact] of Object.entries(facts)) {
    const term = document.createElement("dt");
    const description = document.createElement("dd");
    term.textContent = name;
    description.textContent = fact;
    list.append(term, description);
  }
  tooltip.replaceChildren(title, list);
  tooltip.hidden = false;
  const gap = 14;
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const left = event.clientX + gap + width > innerWidth ? event.clientX - gap - width : event.clientX + gap;
  const top = event.clientY + gap + height > innerHeight ? event.clientY - gap - height : event.clientY + gap;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}

addEventListener("scroll", () => { tooltip.hidden = true; }, { passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") tooltip.hidden = true; });

// --- drawing ---------------------------------------------------------------------------------

const options = {
  actions: false,
  ast: true, // interprets expressions; the content security policy forbids eval
  defaultStyle: false,
  renderer: "svg",
  tooltip: showTooltip,
  loader: { load: () => Promise.reject(new Error("this page loads nothing")) },
};

function prepared(chart, kind) {
  const spec = structuredClone(chart.spec);
  if (!kind || !chart.x_kinds) return spec;
  const { low, high, ticks } = chart.x_kinds[kind];
  for (const { encoding: { x } = {} } of spec.layer) {
    if (!x?.scale) continue;
    x.scale.type = kind;
    if (ticks) x.axis.values = { expr: ticks };
    else delete x.axis.values;
  }
  for (const parameter of spec.params) {
    if (parameter.name === "x_low") parameter.value = low;
    if (parameter.name === "x_high") parameter.value = high;
  }
  return spec;
}

function ends(view) {
  const has = (name) => { try { return view.signal(name); } catch { return undefined; } };
  return Object.fromEntries(["x_low", "x_high", "y_low", "y_high"].map((name) => [name, has(name)]));
}

async function draw(key, kind) {
  const chart = charts[key];
  const before = drawn.get(key);
  const place = document.getElementById(`chart-${key}`);
  const { view } = await vegaEmbed(place, prepared(chart, kind), options);
  before?.view.finalize();
  const now = { view, whole: ends(view), hidden: before?.hidden ?? new Set(chart.hidden) };
  drawn.set(key, now);
  if (now.hidden.size) await hide(key);
  if (before?.statistic) await choose(key, before.statistic);
}

async function hide(key) {
  const { view, hidden } = drawn.get(key);
  await view.signal("hidden", [...hidden]).runAsync();
}

async function choose(key, statistic) {
  const now = drawn.get(key);
  const [low, high] = charts[key].statistics[statistic];
  now.statistic = statistic;
  Object.assign(now.whole, { y_low: low, y_high: high });
  await now.view.signal("statistic", statistic).signal("y_low", low).signal("y_high", high).runAsync();
}

async function move(key, to) {
  const { view } = drawn.get(key);
  for (const [name, value] of Object.entries(to)) {
    if (value !== undefined && Number.isFinite(value)) view.signal(name, value);
  }
  await view.runAsync();
}

// --- legends and choices ---------------------------------------------------------------------

for (const legend of document.querySelectorAll(".legend")) {
  const { controls } = legend.dataset;
  const keys = () => controls in charts
    ? [controls]
    : [...document.querySelectorAll(`[data-group="${controls}"]`)].map((place) => place.dataset.chart);
  legend.addEventListener("click", (event) => {
    const button = event.target.closest("button.line");
    if (!button) return;
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    for (const key of keys()) {
      const now = drawn.get(key);
      if (!now) continue;
      if (shown) now.hidden.delete(button.dataset.line);
      else now.hidden.add(button.dataset.line);
      hide(key);
    }
  });
}

for (const field of document.querySelectorAll("[data-statistic]")) {
  field.addEventListener("change", (event) => choose(field.dataset.statistic, event.target.value));
}
for (const field of document.querySelectorAll("[data-x-kind]")) {
  field.addEventListener("change", (event) => draw(field.dataset.xKind, event.target.value));
}

// --- zooming ---------------------------------------------------------------------------------

function zoomed(scale, low, high, by) {
  const forth = scale.type === "log" ? Math.log : (value) => value;
  const back = scale.type === "log" ? Math.exp : (value) => value;
  const [from, to] = [forth(low), forth(high)];
  const [middle, half] = [(from + to) / 2, ((to - from) / 2) * by];
  return [back(middle - half), back(middle + half)];
}

for (const group of document.querySelectorAll("[data-zoom]")) {
  group.addEventListener("click", (event) => {
    const by = Number(event.target.closest("button")?.dataset.by ?? NaN);
    const key = group.dataset.zoom;
    const now = drawn.get(key);
    if (Number.isNaN(by) || !now) return;
    if (by === 0) {
      move(key, now.whole);
      return;
    }
    const { x_low, x_high } = ends(now.view);
    const [low, high] = zoomed(now.view.scale("x"), x_low, x_high, by);
    move(key, { x_low: Math.max(low, now.whole.x_low), x_high: Math.min(high, now.whole.x_high) });
  });
}

const SHORTEST_DRAG = 8; // pixels; a shorter drag is a click

for (const place of document.querySelectorAll(".chart:not(.small)")) {
  const key = place.dataset.chart;
  let start = null;
  const frame = document.createElement("div");
  frame.className = "frame";
  const inside = (event) => {
    const { view } = drawn.get(key);
    const box = place.querySelector("svg").getBoundingClientRect();
    const [left, top] = view.origin();
    const x = Math.min(Math.max(event.clientX - box.left - left, 0), view.width());
    const y = Math.min(Math.max(event.clientY - box.top - top, 0), view.height());
    return { x, y, left: left + x, top: top + y };
  };
  place.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && drawn.has(key)) start = inside(event);
  });
  place.addEventListener("pointermove", (event) => {
    if (!start) return;
    const now = inside(event);
    if (Math.abs(now.x - start.x) < SHORTEST_DRAG) return;
    place.append(frame);
    tooltip.hidden = true;
    frame.style.left = `${Math.min(start.left, now.left)}px`;
    frame.style.width = `${Math.abs(now.x - start.x)}px`;
    frame.style.top = `${Math.min(start.top, now.top)}px`;
    frame.style.height = `${Math.abs(now.y - start.y)}px`;
  });
  const end = (event) => {
    if (!start) return;
    const [from, to] = [start, inside(event)];
    start = null;
    frame.remove();
    if (event.type === "pointercancel" || Math.abs(to.x - from.x) < SHORTEST_DRAG) return;
    const { view } = drawn.get(key);
    const [x, y] = [view.scale("x"), view.scale("y")];
    const ends_x = [x.invert(from.x), x.invert(to.x)].sort((one, two) => one - two);
    const target = { x_low: ends_x[0], x_high: ends_x[1] };
    if (Math.abs(to.y - from.y) >= SHORTEST_DRAG) {
      [target.y_low, target.y_high] = [y.invert(from.y), y.invert(to.y)].sort((one, two) => one - two);
    }
    move(key, target);
  };
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
  place.addEventListener("dblclick", () => { if (drawn.has(key)) move(key, drawn.get(key).whole); });
}

// --- commands and runs -----------------------------------------------------------------------

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "copied";
  } catch { // without clipboard permission, select the command
    getSelection().selectAllChildren(code);
    button.textContent = "selected";
  }
  setTimeout(() => { button.textContent = "copy"; }, 1500);
});

const filter = document.getElementById("filter");
filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of document.querySelectorAll(".runs tbody tr")) {
    const text = [...row.cells].slice(0, -1).map((cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  document.getElementById("filtered").textContent = words.length ? `${shown} shown` : "";
});

// --- start -------------------------------------------------------------------------------------

(async () => {
  for (const key of Object.keys(charts)) {
    await draw(key);
    await new Promise((resolve) => { setTimeout(resolve); }); // keep the page responsive
  }
  root.dataset.drawn = "all";
})();
