// The audit: a random sample whose labels a person checks without seeing what the model thinks, and what it tells.

import { getJson, postJson } from "./api.js";
import { byId, button, counted, make } from "./dom.js";
import { setFilter } from "./filters.js";
import { isAudit } from "./selection.js";
import { emit, on, state } from "./state.js";

const SIZE = 100;
const REST_MS = 400;
const INTRODUCTION = "How many labels are wrong? The model's estimate misses errors that it has learnt. A random "
  + "sample that a person checks does not. While you check it, the page hides what the model thinks of a label until "
  + "you have decided.";
const tab = byId("audit");
let rest = 0;

export function start() {
  on("saving", ({ count }) => {  // the server has the decisions
    if (count || !state.audit.positions.length) return;
    clearTimeout(rest);
    rest = setTimeout(refresh, REST_MS);
  });
  on("order", show);
}

export const refresh = () => getJson("audit").then(receive, () => {});

function receive(audit) {
  const before = state.audit.positions.length;
  state.audit = audit;
  show();
  if (audit.positions.length !== before) emit("subsets");
}

async function draw() {
  try {
    receive(await postJson("audit", { sample: Math.min(state.n, state.audit.positions.length + SIZE) }));
    await setFilter({ show: "audit" });
  } catch (error) {
    tab.append(make("p", { class: "alarm", role: "alert" }, `The sample could not be drawn. ${error.message}`));
  }
}

const bold = text => make("strong", {}, text);

function show() {
  const { positions, sentence, decided = 0 } = state.audit, drawn = positions.length;
  const parts = [make("p", {}, INTRODUCTION)];
  if (drawn) {
    parts.push(
      make("p", { role: "status" }, `${decided} of ${counted(drawn, "label")} decided. `, bold(sentence ?? "")),
      make("progress", { max: drawn, value: decided, "aria-label": "checked labels of the random sample" }),
      make("p", { class: "soft" }, "Decide on every label: leaving out hard ones makes the result wrong."),
    );
    if (!isAudit()) parts.push(button("Check the sample", () => setFilter({ show: "audit" })));
  }
  const more = drawn ? `Draw ${SIZE} more at random` : `Draw a random sample of ${Math.min(SIZE, state.n)}`;
  if (drawn < state.n) parts.push(button(more, draw));
  tab.replaceChildren(...parts);
}
