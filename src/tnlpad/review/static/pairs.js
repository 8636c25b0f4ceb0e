// The table of given against suggested classes. A click shows the samples of a cell, a row or a column.

import { bdi, byId, button, grouped, make, option } from "./dom.js";
import { setFilter } from "./filters.js";
import { isShown } from "./panel.js";
import { className, on, state } from "./state.js";

const MOST_CLASSES = 20;
const tab = byId("pairs");
let isMade = false;

export function start() {
  on("tab", () => { if (isShown("pairs") && !isMade) show(state.about.suspects ? "suspects" : "all"); });
}

function show(scope) {
  isMade = true;
  const count = scope === "suspects" ? state.about.suspects : state.n;
  const labels = frequent(count), counts = counted(labels, count);
  const select = make("select", {}, option("suspects", "suspects"), option("all", "all samples"));
  select.value = scope;
  select.addEventListener("change", () => { show(select.value); tab.querySelector("select").focus(); });
  tab.replaceChildren(
    make("p", {}, make("label", {}, "count ", select)),
    make("div", { class: "scroll" }, table(labels, counts, scope)),
    make("p", { class: "soft" }, `Rows: given class; columns: suggested class. A cell shows its samples.`
      + (labels.length < state.about.classes.length ? ` The ${labels.length} classes with the most differences.` : "")),
  );
}

// The classes that occur most in pairs of different labels.
function frequent(count) {
  const times = new Uint32Array(state.about.classes.length);
  for (let at = 0; at < count; at++) {
    if (state.given[at] === state.suggested[at]) continue;
    times[state.given[at]]++;
    times[state.suggested[at]]++;
  }
  return [...times.keys()].sort((a, b) => times[b] - times[a]).slice(0, MOST_CLASSES);
}

function counted(labels, count) {
  const place = new Map(labels.map((label, index) => [label, index]));
  const counts = labels.map(() => new Uint32Array(labels.length));
  for (let at = 0; at < count; at++) {
    const row = place.get(state.given[at]), column = place.get(state.suggested[at]);
    if (row !== undefined && column !== undefined) counts[row][column]++;
  }
  return counts;
}

function table(labels, counts, scope) {
  const most = Math.max(1, ...counts.flatMap((row, here) => [...row].filter((_, column) => column !== here)));
  const pick = (given, suggested) => setFilter({ show: scope, given, suggested });
  const headings = labels.map(label => heading("col", label, `suggested ${className(label)}`, () => pick(-1, label)));
  const rows = counts.map((row, here) => make("tr", {},
    heading("row", labels[here], `given ${className(labels[here])}`, () => pick(labels[here], -1)),
    ...[...row].map((count, column) => cell(count, labels[here], labels[column], most, pick))));
  const made = make("table", { class: "pairs" }, make("caption", {}, "given → suggested"),
    make("thead", {}, make("tr", {}, make("td"), ...headings)), make("tbody", {}, ...rows));
  made.addEventListener("keydown", event => walk(made, event));
  const first = made.querySelector("tbody td button") ?? made.querySelector("button");
  if (first) first.tabIndex = 0;
  return made;
}

function heading(scope, label, name, action) {
  const chosen = button(bdi(className(label)), action, { tabindex: -1, "aria-label": name });
  return make("th", { scope, title: className(label) }, chosen);
}

function cell(count, given, suggested, most, pick) {
  if (!count) return make("td", { class: given === suggested ? "same" : null });
  const name = `${grouped(count)} given ${className(given)}, suggested ${className(suggested)}`;
  const attributes = { tabindex: -1, "aria-label": name, title: name };
  const chosen = button(grouped(count), () => pick(given, suggested), attributes);
  const made = make("td", { class: given === suggested ? "same" : null }, chosen);
  if (given !== suggested) made.style.setProperty("--share", (0.1 + 0.9 * Math.sqrt(count / most)).toFixed(3));
  return made;
}

// One cell is reached by the Tab key, the others by arrow keys.
function walk(made, event) {
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  if (!steps) return;
  event.preventDefault();
  const here = event.target.closest("td, th");
  let [row, column] = [here.parentElement.rowIndex + steps[0], here.cellIndex + steps[1]];
  for (; made.rows[row]?.cells[column]; row += steps[0], column += steps[1]) {
    const next = made.rows[row].cells[column].querySelector("button");
    if (!next) continue;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    return;
  }
}
