// The dialog to choose a class in: a combobox, by typing, with arrow keys or by pointing.

import { bdi, byId, grouped, make } from "./dom.js";
import { classCounts, className, state } from "./state.js";
import { isBlind } from "./selection.js";

const MOST_SHOWN = 50;
const MOST_RECENT = 5;
const PAGE = 8;  // options that the page keys move by
const dialog = byId("chooser"), text = byId("chooser-text"), list = byId("chooser-list");
const folded = words => words.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

let names = null;      // [class, name to compare with], the most frequent class first
let recent = [];       // classes chosen last
let done = null;       // what to do with the choice
let active = 0;        // place of the highlighted option
let first = [];        // classes to offer before all others

export function start() {
  text.addEventListener("input", () => { active = 0; show(); });
  text.addEventListener("keydown", pressed);
  list.addEventListener("click", event => {
    const chosen = event.target.closest("[role=option]");
    if (chosen) choose(Number(chosen.dataset.label));
  });
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    const action = done;
    done = null;
    action?.(null);
  });
}

// Return the name of the chosen class, or null if the person chose none.
export function chooseClass(at) {
  names ??= byFrequency();
  first = [...recent, ...(isBlind(at) ? [] : [state.suggested[at]]), state.given[at]];
  text.value = "";
  active = 0;
  show();
  dialog.showModal();
  text.focus();
  return new Promise(finish => { done = finish; });
}

function byFrequency() {
  const counts = classCounts(state.given);
  const all = state.about.classes.map((name, label) => [label, folded(name)]);
  return all.sort(([a], [b]) => counts[b] - counts[a] || a - b);
}

// Classes whose name holds all typed words; those that begin with them come first.
function matching() {
  const typed = folded(text.value.trim()), words = typed.split(/\s+/);
  if (!typed) return [...new Set([...first, ...names.map(([label]) => label)])];
  const found = names.filter(([, name]) => words.every(word => name.includes(word)));
  const rank = ([, name]) => name === typed ? 0 : name.startsWith(typed) ? 1 : 2;
  return found.sort((a, b) => rank(a) - rank(b)).map(([label]) => label);
}

function show() {
  const found = matching(), shown = found.slice(0, MOST_SHOWN);
  active = Math.max(0, Math.min(active, shown.length - 1));
  list.replaceChildren(...shown.map((label, place) =>
    make("li", { role: "option", id: `class-${place}`, "data-label": label }, bdi(className(label)))));
  const more = found.length - shown.length, none = found.length ? "" : "no such class";
  byId("chooser-count").textContent = more ? `and ${grouped(more)} more: type to search` : none;
  highlight();
}

function highlight() {
  [...list.children].forEach((each, place) => each.setAttribute("aria-selected", place === active));
  const chosen = list.children[active];
  if (chosen) text.setAttribute("aria-activedescendant", chosen.id); else text.removeAttribute("aria-activedescendant");
  chosen?.scrollIntoView({ block: "nearest" });
}

function pressed(event) {
  const last = list.children.length - 1;
  const moves = {
    ArrowDown: active < last ? active + 1 : 0, ArrowUp: active > 0 ? active - 1 : last,
    PageDown: Math.min(last, active + PAGE), PageUp: Math.max(0, active - PAGE),
  };
  if (event.key in moves) {
    event.preventDefault();
    active = moves[event.key];
    highlight();
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (list.children[active]) choose(Number(list.children[active].dataset.label));
  }
}

function choose(label) {
  const action = done;
  done = null;
  recent = [label, ...recent.filter(each => each !== label)].slice(0, MOST_RECENT);
  dialog.close();
  action?.(className(label));
}
