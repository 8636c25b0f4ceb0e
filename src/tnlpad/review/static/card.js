// One card of the list: the sample, the buttons to decide with, and what is known about it.

import { described, picture } from "./content.js";
import { breakable, byId } from "./dom.js";
import { sampleAt } from "./samples.js";
import { isBlind } from "./selection.js";
import { className, decisionOf, hasConfidence, isDecided, percentWrong, state, wordsOf } from "./state.js";

export function newCard(at, place, total) {
  const card = byId("card").content.firstElementChild.cloneNode(true);
  card.dataset.at = at;
  card.setAttribute("aria-posinset", place + 1);
  card.setAttribute("aria-setsize", total);
  const given = className(state.given[at]), suggested = className(state.suggested[at]);
  for (const [choice, name] of [["given", given], ["suggested", suggested]]) {
    const button = buttonOf(card, choice);
    button.title = name;
    button.querySelector("bdi").replaceChildren(...breakable(name));
  }
  showDetails(card);
  return card;
}

// Pictures are asked for once a card stays in view.
export function showPicture(card) {
  const shown = card.querySelector(".shown");
  if (state.about.pictures && !shown.querySelector("img, .none")) shown.prepend(picture(card.dataset.at));
}

// Fill in what the server knows about the sample, if that is here, and the decision.
export function showDetails(card) {
  const at = Number(card.dataset.at), sample = sampleAt(at), blind = isBlind(at);
  const shown = card.querySelector(".shown");
  if (sample) {
    for (const each of shown.querySelectorAll(":scope > :not(img, .none)")) each.remove();
    shown.append(...described(sample, blind));
    const text = shown.querySelector(".text");
    text?.classList.toggle("cut", text.scrollHeight > text.clientHeight);
    const name = card.querySelector(".name");
    name.textContent = /^\d+$/.test(sample.id) ? `id ${sample.id}` : sample.id;
    name.title = sample.path ?? sample.id;
  }
  card.querySelector(".why").textContent = blind ? "" : sample?.why ?? "";
  card.querySelector(".facts").textContent = facts(at, blind);
  showDecision(card, at, blind);
}

function showDecision(card, at, blind) {
  const decision = decisionOf(at);
  card.classList.toggle("decided", isDecided(at));
  card.classList.toggle("blind", blind);
  for (const button of card.querySelectorAll("button[data-choice]")) {
    button.setAttribute("aria-pressed", button.dataset.choice === decision.choice);
  }
  buttonOf(card, "suggested").hidden = blind;
  const other = buttonOf(card, "other").querySelector("bdi");
  other.textContent = decision.label ?? "other…";
  buttonOf(card, "other").title = decision.label ?? "choose another class";
  card.setAttribute("aria-label", summary(at, decision, blind));
}

function facts(at, blind) {
  const known = blind ? [] : [`#${at + 1}`];
  if (!blind && hasConfidence()) known.push(`${percentWrong(at)} % likely wrong`);
  if (state.part[at] === 1) known.push("held out");
  if (state.earlier[at]) known.push("decided earlier");
  return known.join(" · ");
}

function summary(at, decision, blind) {
  const parts = [`sample ${sampleAt(at)?.id ?? state.row[at]}`, `given ${className(state.given[at])}`];
  if (!blind) parts.push(`suggested ${className(state.suggested[at])}`);
  if (!blind && hasConfidence()) parts.push(`${percentWrong(at)} % likely wrong`);
  return [...parts, wordsOf(decision)].join(", ");
}

const buttonOf = (card, choice) => card.querySelector(`button[data-choice=${choice}]`);
