// Which samples the list shows, and in which order.

import { CHOICES, isDecided, percentWrong, state } from "./state.js";

export const DEFAULTS = Object.freeze({
  show: "all", given: -1, suggested: -1, decision: "any", part: "any", low: 0, high: 100, search: "", sort: "suspicion",
});
export const filter = { ...DEFAULTS };

// Samples that were chosen by hand: on the map, or a group of duplicates.
export const chosen = { title: "", positions: new Uint32Array(0) };

// In an audit, what the model thinks is hidden until the person has decided.
export const isAudit = () => filter.show === "audit";
export const isBlind = at => isAudit() && !isDecided(at);

const SHOWN = {
  all: () => first(state.n),
  suspects: () => first(state.about.suspects),
  audit: () => Uint32Array.from(state.audit.positions),
  duplicates: () => Uint32Array.from(new Set(state.groups.flat())),
  chosen: () => chosen.positions,
};

function first(count) {
  const positions = new Uint32Array(count);
  for (let at = 0; at < count; at++) positions[at] = at;
  return positions;
}

const DECISIONS = {
  any: () => true,
  undecided: at => !isDecided(at),
  decided: isDecided,
  ...Object.fromEntries(CHOICES.map((choice, number) => [choice, at => state.choice[at] === 1 + number])),
};

// `found` holds the positions of the text search, or is null. An audit is neither sorted nor filtered by the model.
export function selected(found) {
  const tests = [];
  if (filter.given >= 0) tests.push(at => state.given[at] === filter.given);
  if (filter.decision !== "any") tests.push(DECISIONS[filter.decision]);
  if (filter.part !== "any") tests.push(at => state.part[at] === (filter.part === "held out" ? 1 : 0));
  if (!isAudit()) tests.push(...testsOfModel());
  if (found) {
    const isFound = new Uint8Array(state.n);
    for (const at of found) isFound[at] = 1;
    tests.push(at => isFound[at]);
  }
  const positions = SHOWN[filter.show]();
  return sorted(tests.length ? positions.filter(at => tests.every(test => test(at))) : positions);
}

function testsOfModel() {
  const tests = [];
  if (filter.suggested >= 0) tests.push(at => state.suggested[at] === filter.suggested);
  if (filter.low > 0) tests.push(at => percentWrong(at) >= filter.low);
  if (filter.high < 100) tests.push(at => percentWrong(at) <= filter.high);
  return tests;
}

// Keys that sort ascending; equal ones stay in order of suspicion.
const KEYS = {
  suspicion: null,
  confident: at => 1e6 * (1 - (state.confidence[at] || 0)),
  doubtful: at => 1e6 * (state.confidence[at] || 0),
  given: at => state.given[at],
  suggested: at => state.suggested[at],
  row: at => state.row[at],
  random: at => scattered(at),
};

function sorted(positions) {
  const key = isAudit() ? null : KEYS[filter.sort];
  if (!key) return positions;
  const n = state.n, keyed = Float64Array.from(positions, at => Math.round(key(at)) * n + at);  // exact below 2^53
  return Uint32Array.from(keyed.sort(), each => each % n);
}

// A hash of the position, different on each page load.
const seed = crypto.getRandomValues(new Uint32Array(1))[0];
function scattered(at) {
  let hash = (at ^ seed) >>> 0;
  hash = Math.imul(hash ^ hash >>> 16, 0x45d9f3b);
  hash = Math.imul(hash ^ hash >>> 16, 0x45d9f3b);
  return (hash ^ hash >>> 16) >>> 0;
}

export function isFiltered() {
  const { show, sort, ...filters } = DEFAULTS;
  return Object.keys(filters).some(name => filter[name] !== filters[name]);
}
