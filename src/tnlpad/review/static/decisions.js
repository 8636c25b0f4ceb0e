// Deciding and undoing in this tab.

import { decisionOf, NO_DECISION, setDecisions, state } from "./state.js";
import { send } from "./outbox.js";

const history = [];

// Choosing the same again withdraws the decision. Return whether the sample is decided now.
export function decide(at, choice) {
  const isAgain = decisionOf(at).choice === choice;
  return change(at, isAgain ? NO_DECISION : { choice, label: null });
}

export function decideClass(at, name) {
  const number = state.classNumber.get(name);
  if (number === state.given[at]) return change(at, { choice: "given", label: null });
  if (number === state.suggested[at]) return change(at, { choice: "suggested", label: null });
  return change(at, { choice: "other", label: name });
}

// Return the position of the sample whose decision was undone, or null.
export function undo() {
  const last = history.pop();
  if (!last) return null;
  store(last.at, last.before);
  return last.at;
}

export const canUndo = () => history.length > 0;

function change(at, decision) {
  history.push({ at, before: decisionOf(at) });
  store(at, decision);
  return decision.choice !== null;
}

function store(at, decision) {
  setDecisions([{ at, ...decision }]);
  send(at, decision);
}
