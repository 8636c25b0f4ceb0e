// What the page knows: the columns of all samples by position, and the decision about each. Others listen for changes.

import { getBytes, getJson } from "./api.js";

export const CHOICES = ["given", "suggested", "other", "unsure", "exclude"];
export const NO_DECISION = Object.freeze({ choice: null, label: null });

export const state = {
  about: null, n: 0,
  given: null, suggested: null, confidence: null, row: null, part: null,  // typed arrays by position
  choice: null,    // by position: 0 if undecided, otherwise 1 + the place in CHOICES
  label: null,     // by position: class of the choice "other"
  earlier: null,   // by position: 1 if decided in an earlier round
  audit: { positions: [] },
  groups: [],      // near duplicates with different labels
};

const events = new EventTarget();
export const on = (name, action) => events.addEventListener(name, event => action(event.detail));
export const emit = (name, detail) => events.dispatchEvent(new CustomEvent(name, { detail }));

// Return the version of the decisions that are loaded.
export async function load() {
  const [about, columns, decisions] = await Promise.all(
    [getJson("about"), getBytes("columns"), getJson("decisions?since=0")]);
  const n = about.samples;
  Object.assign(state, {
    about, n,
    given: new Uint32Array(columns, 0, n), suggested: new Uint32Array(columns, 4 * n, n),
    confidence: new Float32Array(columns, 8 * n, n), row: new Uint32Array(columns, 12 * n, n),
    part: new Uint8Array(columns, 16 * n, n),
    choice: new Uint8Array(n), label: new Uint32Array(n), earlier: new Uint8Array(n),
    classNumber: new Map(about.classes.map((name, number) => [name, number])),
  });
  for (const each of decisions.decisions) write(each);
  return decisions.version;
}

function write({ at, choice, label, by }) {
  state.choice[at] = choice === null ? 0 : 1 + CHOICES.indexOf(choice);
  state.label[at] = choice === "other" ? state.classNumber.get(label) : 0;
  state.earlier[at] = by === "earlier" ? 1 : 0;
}

export function setDecisions(decisions) {
  if (!decisions.length) return;
  for (const each of decisions) write(each);
  emit("decided", decisions.map(each => each.at));
}

export const isDecided = at => state.choice[at] !== 0;

export function decisionOf(at) {
  if (!isDecided(at)) return NO_DECISION;
  const choice = CHOICES[state.choice[at] - 1];
  return { choice, label: choice === "other" ? className(state.label[at]) : null };
}

export const className = number => state.about.classes[number];
export const isSuspect = at => at < state.about.suspects;
export const percentWrong = at => Math.floor(100 * state.confidence[at]);
export const hasConfidence = () => state.n > 0 && !Number.isNaN(state.confidence[0]);


// Return how many samples have each class, by a column of labels.
export function classCounts(labels) {
  const counts = new Uint32Array(state.about.classes.length);
  for (const label of labels) counts[label]++;
  return counts;
}

const WORDS = { given: "given is right", suggested: "suggested is right", unsure: "not sure", exclude: "excluded" };

export const wordsOf = ({ choice, label }) => choice === "other" ? `class ${label}` : WORDS[choice] ?? "undecided";
