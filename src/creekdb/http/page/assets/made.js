// Elements, made and changed. Whatever a replica says becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

export function made(name, attributes = {}, ...inside) {
  return fill(document.createElement(name), attributes, inside);
}

export function drawn(name, attributes = {}, ...inside) {
  return fill(document.createElementNS(SVG, name), attributes, inside);
}

function fill(element, attributes, inside) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...inside.filter((each) => each !== null && each !== undefined));
  return element;
}

/** Written only where it is another text, so that what a reader has selected stays so. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A replica's colour, for the element and what is in it. */
export function coloured(element, replica) {
  element.style.setProperty("--of", `var(--replica-${Number(replica) % 8})`);
  return element;
}

export function badge(replica, strong) {
  const made_of = made("i", { class: `badge ${strong ? "strong" : "weak"}`, "aria-hidden": "true" }, String(replica));
  return coloured(made_of, replica);
}

export const issuer = (id) => Number(id.split(".")[0]);
