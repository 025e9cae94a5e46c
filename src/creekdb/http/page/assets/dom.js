// Creation and update of elements. Data of a replica becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

export function createHtml(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function createSvg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((each) => each !== null && each !== undefined));
  return element;
}

/** Return the text as nodes, with the parts between backticks as code. */
export function withCode(text) {
  return text.split("`").map((part, n) => (n % 2 ? createHtml("code", {}, part) : part));
}

/** Set the text if it differs, so that a selection of the reader survives. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Apply the colour of a replica to the element and its children. */
export function applyColour(element, replica) {
  element.style.setProperty("--of", `var(--replica-${Number(replica) % 8})`);
  return element;
}

export function badge(replica, strong) {
  const element = createHtml("i", { class: `badge ${strong ? "strong" : "weak"}`, "aria-hidden": "true" }, String(replica));
  return applyColour(element, replica);
}

export const issuer = (id) => Number(id.split(".")[0]);
