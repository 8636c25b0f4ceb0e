// Keys of the whole page. Fields and dialogs keep their own.

import { choose, chooseOther, move, undoLast } from "./actions.js";
import { byId } from "./dom.js";
import { focusFilters } from "./filters.js";
import { columnCount, currentPlace, go, shownOrder } from "./list.js";
import { closePanel, openTab } from "./panel.js";

const KEYS = {
  j: () => move(1), ArrowRight: () => move(1), k: () => move(-1), ArrowLeft: () => move(-1),
  ArrowDown: () => move(columnCount()), ArrowUp: () => move(-columnCount()),
  Home: () => go(0), End: () => go(shownOrder().length - 1),
  g: () => choose("given"), s: () => choose("suggested"), u: () => choose("unsure"), x: () => choose("exclude"),
  c: chooseOther, "/": chooseOther, z: undoLast, f: focusFilters,
  d: () => openTab("sample"), "?": () => byId("help").showModal(),
  Escape: () => { closePanel(); go(currentPlace()); },
};

export function start() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("dialog")) return;
    const isField = event.target.matches("input, select"), inPanel = event.target.closest("aside");
    if (isField && event.key !== "Escape") return;
    if (inPanel && /^(Arrow|Home|End)/.test(event.key)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!Object.hasOwn(KEYS, key)) return;
    event.preventDefault();
    KEYS[key]();
  });
  byId("keys").addEventListener("click", KEYS["?"]);
}
