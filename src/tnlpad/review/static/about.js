// What the page says about the run, and about whether decisions are saved.

import { canUndo } from "./decisions.js";
import { bdi, byId, counted, grouped, make } from "./dom.js";
import { GONE, unsent } from "./outbox.js";
import { openTab } from "./panel.js";
import { on, state } from "./state.js";

const SAVING_MS = 400;  // shorter waits are not worth a word
let slow = 0;

export function start() {
  const { title } = state.about;
  document.title = `Review: ${title}`;
  byId("title").textContent = title;
  byId("about").replaceChildren(...content());
  on("saving", showSaved);
  on("decided", () => { byId("undo").disabled = !canUndo(); });
  on("refused", message => {
    byId("alarm").hidden = false;
    byId("alarm").textContent = `A decision was not stored. ${message}`;
  });
  showSaved(unsent());
  byId("caution").hidden = !state.about.caution;
  byId("caution").title = state.about.caution ?? "";
  byId("caution").addEventListener("click", () => openTab("about"));
}

function content() {
  const { suspects, samples, caution, sentences, notes, command, run } = state.about;
  const labels = `${grouped(suspects)} of ${counted(samples, "label")} ${suspects === 1 ? "is" : "are"}`;
  const verdict = caution
    ? make("p", { class: "verdict caution" }, make("strong", {}, "Caution. "), caution)
    : make("p", { class: "verdict" }, `${labels} more likely wrong than right. ${sentences[0] ?? ""}`);
  return [
    verdict, ...[...sentences.slice(1), ...notes].map(each => make("p", {}, each)),
    make("h3", {}, "When you are done"),
    make("p", {}, "Decisions are stored in the run folder as you make them. To write the data with the right labels:"),
    make("pre", { tabindex: "0" }, make("code", {}, command)),
    make("dl", {}, make("dt", {}, "run"), make("dd", {}, bdi(run))),
  ];
}

function showSaved({ count, problem, isKept }) {
  clearTimeout(slow);
  byId("saved").dataset.unsent = count;
  byId("saved").classList.toggle("late", problem !== null);
  if (problem !== null) {
    const where = isKept ? "in this browser" : "as long as this page is open";
    const kept = count ? ` ${counted(count, "decision")} not saved yet, kept ${where}.` : "";
    const again = problem === GONE ? [" Run again: ", make("code", {}, `tnlpad review ${state.about.run}`)] : [];
    say(problem + kept, ...again);
  } else if (count) {
    slow = setTimeout(() => { say(`${counted(count, "decision")} not saved yet`); }, SAVING_MS);
  } else {
    say("saved");
  }
}

// A screen reader speaks what changes.
function say(...parts) {
  const said = make("p", {}, ...parts);
  if (said.textContent !== byId("saved").textContent) byId("saved").replaceChildren(...said.childNodes);
}
