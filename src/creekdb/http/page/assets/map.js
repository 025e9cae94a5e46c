// Replicas and the links between them. In a development cluster, links can be cut here.

import { applyColour, createSvg, setText } from "./dom.js";

const CENTRE = [180, 130];
const RINGS = [[3, 128, 88, 30, 14], [5, 140, 100, 25, 11], [15, 150, 106, 17, 8]]; // members_max, horizontal and vertical radius, replica radius, button radius
const SCISSORS = "M-5 -5 4 4M-5 5 4 -4M-6.5 -6.5a1.8 1.8 0 1 0 .1 0M-6.5 6.5a1.8 1.8 0 1 0 .1 0";
const HEAL = "M-5 0H5M0 -5V5";

export class ClusterMap {
  constructor(svg, cluster, onPress) {
    this.svg = svg;
    this.cluster = cluster;
    this.onPress = onPress;
    this.drawn = "";
  }

  draw() {
    const { cluster } = this;
    const shape = JSON.stringify([cluster.members, cluster.trial?.replicas]);
    if (shape !== this.drawn) this.build(shape);
    for (const [[one, other], group] of this.links) {
      const up = cluster.linked(one, other);
      group.classList.toggle("down", !up);
      const path = group.querySelector("path");
      path?.setAttribute("d", cluster.isCut(one, other) ? HEAL : SCISSORS);
      const action = cluster.isCut(one, other) ? "Heal" : "Cut";
      group.setAttribute("aria-label", cluster.breakable(one, other) ? `${action} the link between ${one} and ${other}` : `The link between ${one} and ${other} is ${up ? "up" : "down"}`);
    }
    for (const [replica, group] of this.nodes) {
      const at = cluster.at(replica);
      group.classList.toggle("down", !at.live);
      const isLeader = at.live && at.now.leader === replica;
      group.querySelector(".crown").style.display = isLeader ? "" : "none";
      const role = cluster.role(replica);
      setText(group.querySelector(".role"), role === "follower" ? "" : role);
    }
  }

  build(shape) {
    this.drawn = shape;
    const { members } = this.cluster;
    const [, wide, high, radius, button] = RINGS.find(([most]) => members.length <= most) ?? RINGS.at(-1);
    const positions = new Map(members.map((replica, n) => {
      const angle = (n / members.length) * 2 * Math.PI - Math.PI / 2;
      return [replica, [CENTRE[0] + Math.cos(angle) * wide, CENTRE[1] + Math.sin(angle) * high]];
    }));
    this.links = this.cluster.pairs().map(([one, other]) => {
      const [x1, y1] = positions.get(one);
      const [x2, y2] = positions.get(other);
      const group = createSvg("g", { class: "link", "data-link": `${one}-${other}` }, createSvg("line", { x1, y1, x2, y2 }));
      if (this.cluster.breakable(one, other)) this.addButton(group, [one, other], (x1 + x2) / 2, (y1 + y2) / 2, button / 14);
      else group.setAttribute("role", "img");
      return [[one, other], group];
    });
    this.nodes = members.map((replica) => {
      const [x, y] = positions.get(replica);
      const group = createSvg("g", { class: "node", transform: `translate(${x} ${y})` },
        createSvg("circle", { r: radius }),
        createSvg("path", { class: "crown", d: `M-11 ${-radius - 4}l-2 -12 7 5 6 -8 6 8 7 -5 -2 12Z` }),
        createSvg("text", { class: "number" }, String(replica)),
        createSvg("text", { class: "role", y: radius + 17 }));
      applyColour(group, replica).querySelector("circle").style.stroke = "var(--of)";
      return [replica, group];
    });
    this.svg.replaceChildren(...this.links.map(([, group]) => group), ...this.nodes.map(([, group]) => group));
  }

  addButton(group, link, x, y, scale) {
    group.setAttribute("role", "button");
    group.setAttribute("tabindex", "0");
    group.append(createSvg("g", { transform: `translate(${x} ${y}) scale(${scale})` }, createSvg("circle", { r: 14 }), createSvg("path", { d: SCISSORS })));
    group.addEventListener("click", () => this.onPress(link));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.onPress(link);
    });
  }
}
