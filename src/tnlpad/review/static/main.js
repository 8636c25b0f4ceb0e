// Starts the page: loads the columns, then gives each part its events.

import * as about from "./about.js";
import { choose, undoLast } from "./actions.js";
import * as audit from "./audit.js";
import * as chooser from "./chooser.js";
import { byId } from "./dom.js";
import * as duplicates from "./duplicates.js";
import * as filters from "./filters.js";
import * as keys from "./keys.js";
import * as list from "./list.js";
import * as map from "./map.js";
import { follow, takeOver } from "./outbox.js";
import * as pairs from "./pairs.js";
import * as panel from "./panel.js";
import * as sample from "./sample.js";
import { load, state } from "./state.js";

async function start() {
  const version = await load();
  document.body.dataset.kind = state.about.pictures ? "pictures" : state.about.kind === "text" ? "text" : "numbers";
  if (state.about.audit?.drawn) await audit.refresh();
  for (const part of [about, chooser, panel, list, filters, sample, pairs, map, duplicates, audit, keys]) part.start();
  if (state.about.caution && !panel.isNarrow()) panel.openTab("about");
  takeOver();
  await filters.setFilter({});
  byId("undo").addEventListener("click", undoLast);
  byId("list").addEventListener("click", clicked);
  follow(version);
}

function clicked(event) {
  const card = event.target.closest(".card");
  if (!card) return;
  const button = event.target.closest("button");
  list.go(Number(card.dataset.place));
  if (button?.dataset.choice) choose(button.dataset.choice);
  else if (button) panel.openTab("sample");
}

start().catch(error => {
  byId("alarm").hidden = false;
  byId("alarm").textContent = `The page could not be loaded. ${error.message}`;
});
