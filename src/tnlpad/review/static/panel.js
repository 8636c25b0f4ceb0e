// The panel beside the list, with tabs. On a narrow screen it covers the list and opens on demand.

import { byId } from "./dom.js";
import { emit } from "./state.js";

const panel = byId("panel"), tabs = [...panel.querySelectorAll("[role=tab]")];
const narrow = matchMedia("(max-width: 62rem)");
const behind = ["filters", "scroller"].map(byId);

export function start() {
  for (const tab of tabs) tab.addEventListener("click", () => select(tab));
  select(tabs[0]);
  panel.querySelector("[role=tablist]").addEventListener("keydown", event => {
    const here = tabs.indexOf(document.activeElement), last = tabs.length - 1;
    const next = here < last ? here + 1 : 0, before = here > 0 ? here - 1 : last;
    const to = { ArrowRight: next, ArrowLeft: before, Home: 0, End: last }[event.key];
    if (here < 0 || to === undefined) return;
    event.preventDefault();
    select(tabs[to]);
    tabs[to].focus();
  });
  byId("open-panel").addEventListener("click", () => openTab(selected()));
  byId("close-panel").addEventListener("click", () => { closePanel(); byId("open-panel").focus(); });
  byId("widen").addEventListener("click", event => {
    event.currentTarget.setAttribute("aria-pressed", document.body.classList.toggle("wide"));
  });
  narrow.addEventListener("change", closePanel);
}

export const isNarrow = () => narrow.matches;
export const isShown = id => !byId(id).hidden && (!narrow.matches || panel.classList.contains("open"));

export function openTab(id) {
  select(byId(`tab-${id}`));
  if (!narrow.matches) return;
  panel.classList.add("open");
  for (const each of behind) each.inert = true;
  emit("tab", id);
  byId(`tab-${id}`).focus();
}

export function closePanel() {
  panel.classList.remove("open");
  for (const each of behind) each.inert = false;
}

const selected = () => tabs.find(tab => tab.getAttribute("aria-selected") === "true").getAttribute("aria-controls");

function select(chosen) {
  for (const tab of tabs) {
    const isChosen = tab === chosen;
    tab.setAttribute("aria-selected", isChosen);
    tab.tabIndex = isChosen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isChosen;
  }
  emit("tab", chosen.getAttribute("aria-controls"));
}
