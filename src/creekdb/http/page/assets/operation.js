// History of an operation: its responses with their times, and its position on each replica.

import { badge, applyColour, issuer, createHtml } from "./dom.js";
import { duration } from "./text.js";

const DESCRIPTIONS = {
  tentative: "tentative response",
  stable: "stable response: never changes",
  final: "final response: the position is fixed",
};

/** Return the known operations whose final response differs from the tentative one, newest first. */
export function changedOperations(cluster) {
  return [...cluster.histories.values()].filter((each) => each.responses?.at(-1)?.changed)
    .sort((one, other) => other.called_at - one.called_at);
}

export function drawOperation(panel, cluster, id, choose) {
  const history = id === null ? null : cluster.histories.get(id);
  const apologies = history ? [] : changedOperations(cluster);
  const shown = history ? [history, positions(cluster, id)] : apologies;
  const rendered = JSON.stringify(shown);
  if (panel.dataset.rendered === rendered) return;
  panel.dataset.rendered = rendered;
  if (!history) {
    panel.replaceChildren(createHtml("p", { class: "note" }, "Select an operation in a list to see its history: the times of its responses, whether a response changed, and its position on each replica."));
    panel.append(...apologies.length ? [createHtml("h3", {}, "Apologies that are due"), createHtml("ol", { class: "apologies" }, ...apologies.map((each) => apology(each, choose)))] : []);
    return;
  }
  const replica = issuer(id);
  applyColour(panel, replica);
  panel.replaceChildren(
    createHtml("button", { type: "button", class: "act back", onclick: () => choose?.(null) }, "Close"),
    createHtml("h3", {}, history.says),
    createHtml("p", { class: "origin" }, history.own ? `issued by replica ${replica} itself` : `called ${history.strong ? "strongly" : "weakly"} at replica ${replica} · ${id}`),
    createHtml("ol", { class: "track" }, ...track(history, id, isShown(cluster, id))),
    createHtml("dl", {}, ...positions(cluster, id).flatMap(([each, text]) => [createHtml("dt", {}, badge(each, false)), createHtml("dd", {}, text)])));
}

function apology({ id, says, responses }, choose) {
  const [first, last] = [responses[0], responses.at(-1)];
  return createHtml("li", {}, createHtml("button", { type: "button", class: "entry", onclick: () => choose?.(id) },
    badge(issuer(id), false), createHtml("span", { class: "says" }, says), createHtml("span", { class: "details" }, `${first.says} → `, createHtml("span", { class: "value sorry" }, last.says))));
}

/** True if the issuing replica still lists the operation; only that replica has its responses. */
function isShown(cluster, id) {
  const { now } = cluster.at(issuer(id));
  return Boolean(now) && [...now.committed, ...now.tentative].some((each) => each.id === id);
}

function track(history, id, shown) {
  if (history.own) return [createHtml("li", { class: "last" }, "A strong no-op. It is ordered like any strong operation and fixes the positions of the weak operations before it.")];
  if (!history.responses) return [createHtml("li", { class: "pending" }, "Called before a page was open; no responses were recorded.")];
  const steps = [createHtml("li", {}, "called", createHtml("span", { class: "ms" }, new Date(history.called_at).toLocaleTimeString()))];
  let last = null;
  for (const response of history.responses) {
    const [number, unit] = duration(response.ms);
    const ended = response.kind !== "tentative";
    const changed = response.changed || (response.kind === "stable" && last !== null && last !== response.says);
    const step = createHtml("li", { class: changed || response.raised ? "changed" : ended ? "last" : "" },
      createHtml("span", { class: "ms" }, `${number} ${unit}`), DESCRIPTIONS[response.kind],
      createHtml("code", { class: response.raised ? "raised" : "" }, response.raised ? `✗ ${response.says}` : response.says));
    if (response.changed) step.append(createHtml("span", { class: "sorry" }, "Differs from the tentative response: an apology is due."));
    else if (response.kind === "final") step.append("same as the tentative response");
    steps.push(step);
    last = response.says;
  }
  const kinds = history.responses.map((each) => each.kind);
  if (!kinds.includes("stable") && !kinds.includes("final")) {
    const waits = history.strong ? "waits for a majority …" : "waits for its final position …";
    steps.push(createHtml("li", { class: "pending" }, shown ? waits : `No further responses are shown: the list of replica ${issuer(id)} no longer contains it.`));
  }
  return steps;
}

const showsAll = (now) => now.committed.length === now.committed_length && now.tentative.length === now.tentative_length;

function positions(cluster, id) {
  return cluster.members.map((replica) => {
    const at = cluster.at(replica);
    if (!at.now) return [replica, "no data yet"];
    const committed = at.now.committed.find((each) => each.id === id);
    const known = committed ?? at.now.tentative.find((each) => each.id === id);
    if (!known) return [replica, !at.live ? "unreachable" : showsAll(at.now) ? "not received" : "not among the latest operations"];
    const position = committed ? `committed, position ${committed.place + 1}` : "tentative";
    return [replica, known.runs > 1 ? `${position}, executed ${known.runs} times` : position];
  });
}
