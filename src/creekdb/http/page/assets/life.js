// An operation's life: when which answer left, and where it stands at each replica.

import { badge, coloured, issuer, made } from "./made.js";
import { duration } from "./words.js";

const SAYS = {
  tentative: "tentative answer",
  stable: "stable answer: it never changes",
  final: "final: it has its place",
};

export function drawLife(panel, cluster, id) {
  const life = id === null ? null : cluster.lives.get(id);
  const shown = life ? [life, standing(cluster, id)] : null;
  const said = JSON.stringify(shown);
  if (panel.dataset.said === said) return;
  panel.dataset.said = said;
  if (!life) {
    panel.replaceChildren(made("p", { class: "note" }, "Choose an operation in a list to see its life: when it was answered, whether an answer changed, and where it stands at each replica."));
    return;
  }
  const replica = issuer(id);
  coloured(panel, replica);
  panel.replaceChildren(
    made("h3", {}, life.says),
    made("p", { class: "who" }, life.own ? `the cluster’s own, by replica ${replica}` : `called ${life.strong ? "strongly" : "weakly"} at replica ${replica} · ${id}`),
    made("ol", { class: "track" }, ...track(life, id, isShown(cluster, id))),
    made("dl", {}, ...standing(cluster, id).flatMap(([each, text]) => [made("dt", {}, badge(each, false)), made("dd", {}, text)])));
}

/** Does the replica where it was called still tell of it? No other one knows its answers. */
function isShown(cluster, id) {
  const { now } = cluster.at(issuer(id));
  return Boolean(now) && [...now.committed, ...now.tentative].some((each) => each.id === id);
}

function track(life, id, shown) {
  if (life.own) return [made("li", { class: "last" }, "A strong no-op. It is ordered like any strong operation, and what came before it gets its final place.")];
  if (!life.answers) return [made("li", { class: "pending" }, "It was called before anybody looked on.")];
  const steps = [made("li", {}, "called", made("span", { class: "ms" }, new Date(life.called_at).toLocaleTimeString()))];
  let last = null;
  for (const answer of life.answers) {
    const [number, unit] = duration(answer.ms);
    const ended = answer.kind !== "tentative";
    const changed = answer.changed || (answer.kind === "stable" && last !== null && last !== answer.says);
    const step = made("li", { class: changed ? "changed" : ended ? "last" : "" },
      made("span", { class: "ms" }, `${number} ${unit}`), SAYS[answer.kind], made("code", {}, answer.says));
    if (answer.changed) step.append(made("span", { class: "sorry" }, "Not what was told first: an apology is due."));
    else if (answer.kind === "final") step.append("as it was told");
    steps.push(step);
    last = answer.says;
  }
  const kinds = life.answers.map((each) => each.kind);
  if (!kinds.includes("stable") && !kinds.includes("final")) {
    const waits = life.strong ? "waits for a majority …" : "waits for its final place …";
    steps.push(made("li", { class: "pending" }, shown ? waits : `What became of it is not shown: it has left the list of replica ${issuer(id)}.`));
  }
  return steps;
}

const showsAll = (now) => now.committed.length === now.committed_length && now.tentative.length === now.tentative_length;

function standing(cluster, id) {
  return cluster.members.map((replica) => {
    const at = cluster.at(replica);
    if (!at.now) return [replica, "not heard of yet"];
    const committed = at.now.committed.find((each) => each.id === id);
    const known = committed ?? at.now.tentative.find((each) => each.id === id);
    if (!known) return [replica, !at.live ? "does not answer" : showsAll(at.now) ? "has not heard of it" : "not among the last that it shows"];
    const place = committed ? `committed, place ${committed.place + 1}` : "tentative";
    return [replica, known.runs > 1 ? `${place}, executed ${known.runs} times` : place];
  });
}
