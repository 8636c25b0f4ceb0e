// The tab about the current sample: large, with samples that are surely right as a reference, and near duplicates.

import { described, picture, shortNumber } from "./content.js";
import { bdi, byId, button, make } from "./dom.js";
import { showChosen } from "./filters.js";
import { currentAt } from "./list.js";
import { isShown } from "./panel.js";
import { loadSamples } from "./samples.js";
import { isBlind } from "./selection.js";
import { className, decisionOf, hasConfidence, on, percentWrong, state, wordsOf } from "./state.js";

const REFERENCES = 6;
const MOST_COLUMNS = 3;  // of other rows beside a row
const SIDES = ["given", "suggested"];
const REST_MS = 120;
const tab = byId("sample");
let surest = null;  // by class: the samples whose given label is most surely right
let rest = 0;

export function start() {
  const later = () => { clearTimeout(rest); rest = setTimeout(show, REST_MS); };
  for (const name of ["current", "order", "tab", "subsets"]) on(name, later);
  on("decided", positions => { if (positions.includes(currentAt())) later(); });
}

async function show() {
  if (!isShown("sample")) return;
  const at = currentAt();
  if (at === null) return tab.replaceChildren(make("p", { class: "soft" }, "No sample is shown."));
  const group = state.groups.find(each => each.includes(at)) ?? [];
  const references = isBlind(at) ? [state.given[at]] : [...new Set([state.given[at], state.suggested[at]])];
  const shown = references.map(label => [label, referencesOf(label, at)]);
  try {
    await loadSamples([at, ...group, ...shown.flatMap(([, positions]) => positions)]);
  } catch {
    return;  // the page says that the server is gone
  }
  if (at !== currentAt()) return;
  const [sample] = await loadSamples([at]);
  tab.replaceChildren(
    ...(await about(at, sample, isBlind(at))),
    ...(group.length ? [await duplicatesOf(group)] : []),
    ...(await Promise.all(shown.map(([label, positions]) => referenceSection(at, label, positions)))),
  );
}

async function about(at, sample, blind) {
  const parts = state.about.pictures ? [picture(at, true)] : [];
  parts.push(...described(sample, blind));
  if (!blind && sample.evidence?.length) parts.push(legend(sample));
  const facts = [["given", className(state.given[at])]];
  if (!blind) facts.push(["suggested", className(state.suggested[at])]);
  if (!blind && hasConfidence()) facts.push(["wrong", `${percentWrong(at)} % likely`]);
  facts.push(["decision", wordsOf(decisionOf(at))], ["id", sample.id], ["row", String(state.row[at])]);
  if (sample.path) facts.push(["path", sample.path]);
  if (!blind && sample.why) facts.push(["why", sample.why]);
  return [...parts, make("dl", {}, ...facts.flatMap(([name, value]) => [
    make("dt", {}, name), make("dd", { class: SIDES.includes(name) ? name : null }, bdi(value))]))];
}

function legend(sample) {
  const words = side => sample.evidence.filter(([, , weight]) => side * weight > 0)
    .map(([start, end]) => sample.text.slice(start, end)).join(", ");
  const sides = [["suggested", words(1)], ["given", words(-1)]].filter(([, said]) => said);
  return make("div", { class: "legend" }, ...sides.map(([side, said]) =>
    make("p", { class: "soft" }, make("mark", { class: `for-${side}` }, `for ${side}`), ": ", bdi(said))));
}

async function referenceSection(at, label, positions) {
  const side = label === state.given[at] ? "given" : "suggested";
  const head = make("h3", {}, `surely right: `, make("span", { class: side }, bdi(className(label))));
  const none = make("p", { class: "soft" }, "No other sample has this label.");
  if (!positions.length) return make("section", { class: "references" }, head, none);
  const isTable = !state.about.pictures && state.about.kind !== "text";
  const shown = isTable ? await compared(at, positions) : await strip(positions);
  return make("section", { class: "references" }, head, shown);
}

async function duplicatesOf(group) {
  const review = button("Show these in the list", () => showChosen("near duplicates", group));
  const head = make("h3", {}, "near duplicates, different labels");
  return make("section", { class: "references" }, head, await strip(group, true), review);
}

// Samples side by side; with their given labels if these differ.
export async function strip(positions, withLabels = false) {
  const samples = await loadSamples(positions);
  return make("div", { class: "strip" }, ...samples.map(sample => {
    const figure = make("figure", { title: sample.path ?? sample.id });
    if (state.about.pictures) figure.append(picture(sample.at));
    else figure.append(...brief(sample));
    if (withLabels) figure.append(make("figcaption", { class: "given" }, bdi(className(state.given[sample.at]))));
    return figure;
  }));
}

// The columns of a row beside those of others.
async function compared(at, positions) {
  const [here, ...others] = (await loadSamples([at, ...positions.slice(0, MOST_COLUMNS)])).map(valuesOf);
  const rows = [...here].map(([column, value]) => {
    const values = [value, ...others.map(each => each.get(column) ?? "")];
    const head = make("th", { scope: "row", title: column }, bdi(column));
    return make("tr", {}, head, ...values.map(each => make("td", { title: each }, bdi(each))));
  });
  const heads = ["column", "here", ...others.map(() => "right")].map(each => make("th", { scope: "col" }, each));
  return make("table", { class: "numbers" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
}

function valuesOf({ values, numbers }) {
  return new Map(values.length ? values : numbers.map(([column, value]) => [column, shortNumber(value)]));
}

function brief(sample) {
  if (sample.text !== null) return [make("p", { class: "text" }, bdi(sample.text))];
  return described(sample, true);
}

function referencesOf(label, at) {
  surest ??= allSurest();
  const isRight = each => each !== at && [null, "given"].includes(decisionOf(each).choice);
  return surest[label].filter(isRight).slice(0, REFERENCES);
}

// The least suspicious samples come last in the ranking. Some are kept in reserve for those that are decided against.
function allSurest() {
  const found = state.about.classes.map(() => []);
  for (let at = state.n - 1; at >= 0; at--) {
    if (found[state.given[at]].length < 4 * REFERENCES) found[state.given[at]].push(at);
  }
  return found;
}
