// What a person does to the current sample.

import { chooseClass } from "./chooser.js";
import { decide, decideClass, undo } from "./decisions.js";
import { speak } from "./dom.js";
import { currentAt, currentPlace, go, goToSample, nextUndecided } from "./list.js";
import { isBlind } from "./selection.js";
import { decisionOf, wordsOf } from "./state.js";

// `choice` as in CHOICES. Choosing the same again withdraws it, and the focus stays.
export async function choose(choice) {
  const at = currentAt();
  if (at === null || choice === "suggested" && isBlind(at)) return;
  if (choice === "other" && decisionOf(at).choice !== "other") return chooseOther();
  finish(at, decide(at, choice));
}

export async function chooseOther() {
  const at = currentAt();
  if (at === null) return;
  const name = await chooseClass(at);
  if (name === null) goToSample(at); else finish(at, decideClass(at, name));
}

export function undoLast() {
  const at = undo();
  if (at === null) return speak("nothing to undo");
  goToSample(at);
  speak(`undone: ${wordsOf(decisionOf(at))}`);
}

export const move = steps => go(currentPlace() + steps);

function finish(at, isDecided) {
  const next = isDecided ? nextUndecided(currentPlace()) : currentPlace();
  go(next >= 0 ? next : currentPlace());
  speak(wordsOf(decisionOf(at)) + (next < 0 ? ", no undecided sample follows" : ""));
}
