// State of the cluster as English sentences, and formatting of numbers and values.

const NUMBERS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];

export const countOf = (n, noun) => `${NUMBERS[n] ?? n} ${noun}${n === 1 ? "" : "s"}`;

export function joinList(items) {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}

export const replicaNames = (replicas) =>
  replicas.length === 1 ? `replica ${replicas[0]}` : `replicas ${joinList(replicas)}`;

const capitalise = (text) => text[0].toUpperCase() + text.slice(1);

/** Parse JSON. An integer beyond 53 bits becomes a BigInt, since a number would be rounded. */
export const parseJson = (text) =>
  JSON.parse(text, (_, value, context) => (Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source) ? BigInt(context.source) : value));

/** Format a value as JSON, a BigInt as its digits. */
export const formatJson = (value) =>
  JSON.stringify(value, (_, each) => (typeof each === "bigint" ? JSON.rawJSON(String(each)) : each));

/** Format milliseconds with their significant digits; return the number and its unit. */
export function duration(ms) {
  if (ms === null || ms === undefined) return ["–", ""];
  if (ms >= 10_000) return [(ms / 1000).toFixed(0), "s"];
  if (ms >= 1000) return [(ms / 1000).toFixed(1), "s"];
  if (ms >= 100) return [ms.toFixed(0), "ms"];
  return [ms.toFixed(ms >= 10 ? 1 : 2), "ms"];
}

/** Return the network partitions: groups of live replicas that reach each other, largest first. */
export function partitions(cluster) {
  const live = cluster.living();
  const remaining = new Set(live);
  const parts = [];
  while (remaining.size) {
    const group = [];
    const queue = [remaining.values().next().value];
    remaining.delete(queue[0]);
    while (queue.length) {
      const one = queue.pop();
      group.push(one);
      for (const other of [...remaining]) {
        if (cluster.linked(one, other)) {
          remaining.delete(other);
          queue.push(other);
        }
      }
    }
    parts.push(group.sort((a, b) => a - b));
  }
  return parts.sort((a, b) => b.length - a.length || a[0] - b[0]);
}

export function headline(cluster) {
  const [title, lead] = situation(cluster);
  const different = differences(cluster);
  return [title, different ? `${lead} ${different}` : lead];
}

/** Return a sentence about replicas with different code for an operation; empty if there are none. */
function differences(cluster) {
  const pairs = cluster.living().flatMap((one) => Object.entries(cluster.at(one).now.differing)
    .filter(([other]) => one < Number(other))
    .map(([other, names]) => `${replicaNames([one, other])} have different code for ${joinList(names)}`));
  return pairs.length ? `${capitalise(pairs.join("; "))}.` : "";
}

function situation(cluster) {
  const { members } = cluster;
  const live = cluster.living();
  const dead = members.filter((each) => !live.includes(each));
  const parts = partitions(cluster);
  const majority = Math.floor(members.length / 2) + 1;
  if (!live.length) return ["No replica is reachable.", "The page keeps retrying; there is no need to reload it."];
  if (parts.length > 1) return split(parts, majority, dead);
  if (dead.length) return lost(dead, live, majority);
  return whole(cluster, live);
}

function split(parts, majority, dead) {
  const title = `The network is partitioned into ${countOf(parts.length, "part").toLowerCase()}: ${parts.map((each) => each.join(", ")).join(" | ")}.`;
  const strong = parts.find((each) => each.length >= majority);
  const small = parts.filter((each) => each !== strong).flat().sort((a, b) => a - b);
  const one = small.length === 1;
  const lead = strong
    ? `${capitalise(replicaNames(strong))} ${strong.length === 1 ? "is" : "are"} a majority and ${strong.length === 1 ? "continues" : "continue"}. ${capitalise(replicaNames(small))} ${one ? "responds" : "respond"} to weak calls at once; strong calls wait there.`
    : "No part has a majority: every replica responds to weak calls, and strong calls wait.";
  return [title, dead.length ? `${lead} ${capitalise(replicaNames(dead))} ${dead.length === 1 ? "is" : "are"} down.` : lead];
}

function lost(dead, live, majority) {
  const title = `${capitalise(replicaNames(dead))} ${dead.length === 1 ? "is" : "are"} unreachable.`;
  const lead = live.length >= majority
    ? `${capitalise(replicaNames(live))} ${live.length === 1 ? "is" : "are"} a majority and ${live.length === 1 ? "continues" : "continue"}: weak and strong calls succeed.`
    : `${capitalise(replicaNames(live))} ${live.length === 1 ? "is" : "are"} no majority: weak calls succeed, and strong calls wait.`;
  return [title, lead];
}

function whole(cluster, live) {
  const leaders = new Set(live.map((each) => cluster.at(each).now.leader));
  const leader = leaders.size === 1 ? [...leaders][0] : null;
  const broken = cluster.pairs().filter(([one, other]) => !cluster.linked(one, other));
  const title = broken.length
    ? `${countOf(broken.length, "link")} down; all replicas are connected.`
    : `${countOf(live.length, "replica")}, one order.`;
  const tentative = Math.max(...live.map((each) => cluster.at(each).now.tentative_length));
  const apart = new Set(live.map((each) => cluster.at(each).now.committed_length)).size > 1;
  const leads = leader === null ? "A leader election is in progress." : `Replica ${leader} is the leader.`;
  const rest = tentative
    ? `${countOf(tentative, "operation")} ${tentative === 1 ? "waits" : "wait"} for a final position.`
    : apart ? "Some replicas are catching up." : "All operations have their final position, the same on every replica.";
  return [title, `${leads} ${rest}`];
}
