// What is going on, in words; and numbers as people read them.

const NUMBERS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];

export const numbered = (n, noun) => `${NUMBERS[n] ?? n} ${noun}${n === 1 ? "" : "s"}`;

export function listed(items) {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}

export const named = (replicas) =>
  replicas.length === 1 ? `replica ${replicas[0]}` : `replicas ${listed(replicas)}`;

const upper = (text) => text[0].toUpperCase() + text.slice(1);

/** Milliseconds, with as many digits as mean something, and the unit apart. */
export function duration(ms) {
  if (ms === null || ms === undefined) return ["–", ""];
  if (ms >= 10_000) return [(ms / 1000).toFixed(0), "s"];
  if (ms >= 1000) return [(ms / 1000).toFixed(1), "s"];
  if (ms >= 100) return [ms.toFixed(0), "ms"];
  return [ms.toFixed(ms >= 10 ? 1 : 2), "ms"];
}

/** Those who reach each other, in groups; the dead are in none. */
export function groups(cluster) {
  const living = cluster.living();
  const left = new Set(living);
  const found = [];
  while (left.size) {
    const group = [];
    const next = [left.values().next().value];
    left.delete(next[0]);
    while (next.length) {
      const one = next.pop();
      group.push(one);
      for (const other of [...left]) {
        if (cluster.linked(one, other)) {
          left.delete(other);
          next.push(other);
        }
      }
    }
    found.push(group.sort((a, b) => a - b));
  }
  return found.sort((a, b) => b.length - a.length || a[0] - b[0]);
}

export function headline(cluster) {
  const { members } = cluster;
  const living = cluster.living();
  const dead = members.filter((each) => !living.includes(each));
  const parts = groups(cluster);
  const most = Math.floor(members.length / 2) + 1;
  if (!living.length) return ["No replica answers.", "This page goes on trying; it need not be loaded again."];
  if (parts.length > 1) return split(parts, most, dead);
  if (dead.length) return lost(dead, living, most);
  return whole(cluster, living);
}

function split(parts, most, dead) {
  const title = `The network is in ${numbered(parts.length, "part").toLowerCase()}: ${parts.map((each) => each.join(", ")).join(" | ")}.`;
  const strong = parts.find((each) => each.length >= most);
  const small = parts.filter((each) => each !== strong).flat().sort((a, b) => a - b);
  const one = small.length === 1;
  const told = strong
    ? `${upper(named(strong))} ${strong.length === 1 ? "is" : "are"} a majority and go on as before. ${upper(named(small))} ${one ? "answers" : "answer"} weak calls at once; strong ones wait there.`
    : "No part is a majority: weak calls are answered everywhere, and strong ones wait.";
  return [title, dead.length ? `${told} ${upper(named(dead))} ${dead.length === 1 ? "is" : "are"} down.` : told];
}

function lost(dead, living, most) {
  const title = `${upper(named(dead))} ${dead.length === 1 ? "does" : "do"} not answer.`;
  const told = living.length >= most
    ? `${upper(named(living))} ${living.length === 1 ? "is" : "are"} a majority and go on: weak and strong calls are answered.`
    : `${upper(named(living))} ${living.length === 1 ? "is" : "are"} no majority: weak calls are answered, strong ones wait.`;
  return [title, told];
}

function whole(cluster, living) {
  const leaders = new Set(living.map((each) => cluster.at(each).now.leader));
  const leader = leaders.size === 1 ? [...leaders][0] : null;
  const broken = cluster.pairs().filter(([one, other]) => !cluster.linked(one, other));
  const title = broken.length
    ? `${numbered(broken.length, "link")} down, and everybody can be reached.`
    : `${numbered(living.length, "replica")}, one order.`;
  const tentative = Math.max(...living.map((each) => cluster.at(each).now.tentative_length));
  const apart = new Set(living.map((each) => cluster.at(each).now.committed_length)).size > 1;
  const leads = leader === null ? "They are about to agree on a leader." : `Replica ${leader} leads.`;
  const rest = tentative
    ? `${numbered(tentative, "operation")} ${tentative === 1 ? "waits" : "wait"} for a final place.`
    : apart ? "Some are catching up." : "Everything they know has its final place, the same everywhere.";
  return [title, `${leads} ${rest}`];
}
