// The controls that say which samples are shown. Their values are kept in the address, so that a reload keeps them.

import { getBytes } from "./api.js";
import { byId, grouped, option } from "./dom.js";
import { showOrder, shownOrder } from "./list.js";
import { chosen, DEFAULTS, filter, isAudit, isFiltered, selected } from "./selection.js";
import { classCounts, className, emit, hasConfidence, isDecided, on, state } from "./state.js";

const LONGEST_NAME = 40;
const TYPING_MS = 250;
const NUMBERS = ["given", "suggested", "low", "high"];
const BY_CONFIDENCE = ["confident", "doubtful"];
const OPTIONS = {
  sort: [["suspicion", "most suspicious"], ["confident", "most likely wrong"], ["doubtful", "least likely wrong"],
    ["given", "given class"], ["suggested", "suggested class"], ["row", "row of the data"], ["random", "random"]],
  decision: [["any", "any"], ["undecided", "undecided"], ["decided", "decided"], ["given", "given is right"],
    ["suggested", "suggested is right"], ["other", "other class"], ["unsure", "not sure"], ["exclude", "excluded"]],
  part: [["any", "any"], ["training", "training"], ["held out", "held out"]],
};

let found = null, foundFor = "";  // positions of the text search
let typing = 0, isStarted = false;

export function start() {
  for (const [id, options] of Object.entries(OPTIONS)) {
    const possible = options.filter(([value]) => hasConfidence() || !BY_CONFIDENCE.includes(value));
    byId(id).replaceChildren(...possible.map(([value, text]) => option(value, text)));
  }
  for (const id of ["given", "suggested"]) fillClasses(id);
  byId("range").hidden = !hasConfidence();
  fillShow();
  const show = state.about.suspects && !state.about.caution ? "suspects" : "all";
  Object.assign(filter, DEFAULTS, { show }, fromAddress());
  for (const id of Object.keys(DEFAULTS)) byId(id).addEventListener("change", () => setFilter({ [id]: valueOf(id) }));
  byId("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => setFilter({ search: byId("search").value.trim() }), TYPING_MS);
  });
  byId("filters").addEventListener("submit", event => event.preventDefault());
  byId("more-filters").addEventListener("click", () => open(byId("more").hidden));
  byId("clear").addEventListener("click", clear);
  byId("clear-all").addEventListener("click", () => { filter.show = "all"; clear(); });
  open(isFiltered());
  on("decided", count);
  on("subsets", fillShow);
}

// Change some filters, and show what fits.
export async function setFilter(changes) {
  Object.assign(filter, changes);
  showControls();
  if (filter.search !== foundFor && !await search()) return;
  toAddress();
  showOrder(selected(found), isAudit() || !isStarted);
  isStarted = true;
  count();
  emit("order");
}

// Show samples that were chosen by hand.
export function showChosen(title, positions) {
  Object.assign(chosen, { title, positions: Uint32Array.from(positions) });
  fillShow();
  return setFilter({ ...DEFAULTS, sort: filter.sort, show: "chosen" });
}

export function focusFilters() {
  open(true);
  byId("show").focus();
}

const clear = () => setFilter({ ...DEFAULTS, show: filter.show, sort: filter.sort });

function open(isOpen) {
  byId("more").hidden = !isOpen;
  byId("filters").classList.toggle("open", isOpen);
  byId("more-filters").setAttribute("aria-expanded", isOpen);
}

// Return whether the answer is the one to show: the person may have typed on.
async function search() {
  const query = filter.search;
  byId("count").textContent = "searching…";
  try {
    const positions = query ? new Uint32Array(await getBytes(`search?q=${encodeURIComponent(query)}`)) : null;
    if (query !== filter.search) return false;
    [found, foundFor] = [positions, query];
    return true;
  } catch (error) {
    byId("count").textContent = `The search failed. ${error.message}`;
    return false;
  }
}

function count() {
  const order = shownOrder();
  let decided = 0;
  for (const at of order) if (isDecided(at)) decided++;
  byId("count").textContent = `${grouped(order.length)} of ${grouped(state.n)} shown`;
  byId("decided").textContent = `${grouped(decided)} of ${grouped(order.length)} decided`;
  Object.assign(byId("progress"), { max: Math.max(1, order.length), value: decided });
}

function fillShow() {
  const sets = [
    ["all", "all samples", state.n], ["suspects", "suspects", state.about.suspects],
    ["audit", "random sample (audit)", state.audit.positions.length],
    ["duplicates", "near duplicates", new Set(state.groups.flat()).size],
    ["chosen", chosen.title, chosen.positions.length],
  ];
  const offered = sets.filter(([value, , count]) => count || ["all", "suspects"].includes(value));
  byId("show").replaceChildren(...offered.map(([value, name, count]) => option(value, `${name} (${grouped(count)})`)));
  byId("show").value = filter.show;
}

function fillClasses(id) {
  const counts = classCounts(state[id]);
  const names = state.about.classes.map((name, label) => [label, `${shortened(name)} (${grouped(counts[label])})`]);
  byId(id).replaceChildren(option(-1, "any"), ...names.map(([label, text]) => option(label, text)));
}

function shortened(name) {
  const half = LONGEST_NAME / 2;
  return name.length <= LONGEST_NAME ? name : `${name.slice(0, half)}…${name.slice(-half)}`;
}

function showControls() {
  for (const id of Object.keys(DEFAULTS)) {
    if (document.activeElement !== byId(id)) byId(id).value = filter[id];
  }
  for (const id of ["sort", "suggested", "low", "high"]) byId(id).disabled = isAudit();
  byId("more-filters").textContent = isFiltered() ? "Filters (on)" : "Filters";
  byId("suggested").title = isAudit() ? "hidden in an audit" : filter.suggested < 0 ? "" : className(filter.suggested);
}

function valueOf(id) {
  const { value } = byId(id);
  if (!NUMBERS.includes(id)) return value.trim();
  return value === "" ? DEFAULTS[id] : Number(value);
}

function toAddress() {
  const kept = Object.keys(DEFAULTS).filter(name => name === "show" || filter[name] !== DEFAULTS[name]);
  history.replaceState(null, "", `#${new URLSearchParams(kept.map(name => [name, filter[name]]))}`);
}

// Return the filters of the address that are possible.
function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1)), valid = {};
  for (const [name, value] of asked) {
    if (!(name in DEFAULTS)) continue;
    if (NUMBERS.includes(name)) {
      const number = Number(value), end = ["low", "high"].includes(name) ? 101 : state.about.classes.length;
      if (number >= -1 && number < end) valid[name] = Math.round(number);
    } else if (name === "search" || [...byId(name).options].some(each => each.value === value)) {
      valid[name] = value;
    }
  }
  return valid;
}
