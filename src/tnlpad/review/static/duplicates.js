// The tab of near duplicates whose given labels differ, side by side.

import { getJson } from "./api.js";
import { byId, button, counted, make } from "./dom.js";
import { setFilter, showChosen } from "./filters.js";
import { isShown } from "./panel.js";
import { strip } from "./sample.js";
import { emit, on, state } from "./state.js";

const QUICK_SAMPLES = 50_000;  // so many are compared without being asked to
const LATER_MS = 1500;         // the list comes first
const AT_ONCE = 12;
const MOST_SIDE_BY_SIDE = 6;
const tab = byId("duplicates");
let shown = 0, answer = null;

export function start() {
  on("tab", () => { if (isShown("duplicates")) load(); });
  if (state.n <= QUICK_SAMPLES) setTimeout(load, LATER_MS);
}

// Ask once; the server may have to look for them.
export async function load() {
  if (answer) return answer;
  tab.replaceChildren(make("p", { class: "soft" }, "Looking for near duplicates …"));
  answer = getJson("duplicates");
  try {
    state.groups = (await answer).groups;
  } catch (error) {
    answer = null;
    tab.replaceChildren(make("p", { class: "soft" }, `They could not be loaded. ${error.message}`));
    return null;
  }
  emit("subsets");
  tab.replaceChildren(...head());
  if (state.groups.length) more();
  return answer;
}

function head() {
  if (!state.groups.length) return [make("p", {}, "No near duplicates have different labels.")];
  const count = counted(state.groups.length, "group");
  return [
    make("p", {}, `${count} of near duplicates with different labels. These labels contradict each other.`),
    button("Show all in the list", () => setFilter({ show: "duplicates" })),
  ];
}

async function more() {
  const groups = state.groups.slice(shown, shown + AT_ONCE);
  shown += groups.length;
  tab.querySelector(".more")?.remove();
  for (const group of groups) tab.append(await section(group));
  if (shown < state.groups.length) tab.append(button("More groups", more, { class: "more" }));
}

async function section(group) {
  const rest = group.length - MOST_SIDE_BY_SIDE;
  const words = rest > 0 ? `Show all ${group.length} in the list` : "Show in the list";
  return make("section", { class: "references" }, await strip(group.slice(0, MOST_SIDE_BY_SIDE), true),
    button(words, () => showChosen("near duplicates", group)));
}
