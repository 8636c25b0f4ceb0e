// Decisions on their way to the server, and those of other tabs on their way here.
//
// A decision stays in the queue, in memory and in localStorage, until the server has confirmed it. Each has a key, and
// the server stores a repeated key once, so that sending again is safe. A page that is opened takes over what another
// one left behind.

import { getJson, postJson } from "./api.js";
import { emit, NO_DECISION, setDecisions } from "./state.js";

export const GONE = "The server is gone.";
const PER_REQUEST = 200;
const POLL_SECONDS = 20;
const RETRY_MS = 1000;
const PREFIX = `tnlpad unsent ${location.pathname} `;
const mine = PREFIX + crypto.randomUUID();
const confirmed = new Map();  // by position: the version at which our last decision was stored

let queue = [], sending = false, isKept = true;
let problem = null;  // why the last request failed

export const unsent = () => ({ count: queue.length, problem, isKept });

export function send(at, { choice, label }) {
  queue.push({ at, choice, label, key: crypto.randomUUID() });
  keep();
  flush();
}

// Take over what closed pages could not send. Pages that are open may send the same, which does no harm.
export function takeOver() {
  const found = [];
  try {
    for (const name of Object.keys(localStorage).filter(each => each.startsWith(PREFIX))) {
      found.push(...JSON.parse(localStorage.getItem(name)));
      localStorage.removeItem(name);
    }
  } catch { /* nothing can be kept here */ }
  queue.push(...found);
  setDecisions(found);
  keep();
  flush();
}

function keep() {
  try {
    if (queue.length) localStorage.setItem(mine, JSON.stringify(queue)); else localStorage.removeItem(mine);
    isKept = true;
  } catch { isKept = false; }
  emit("saving", unsent());
}

async function flush() {
  if (sending) return;
  sending = true;
  let size = PER_REQUEST;
  while (queue.length) {
    const batch = queue.slice(0, size);
    try {
      const { version } = await postJson("decide", { decisions: batch });
      for (const each of batch) confirmed.set(each.at, version);
      answered();
      drop(batch);
    } catch (error) {
      if (error.status !== 400) {
        lost(error);
        await wait(RETRY_MS);
      } else if (batch.length > 1) {
        size = 1;  // find the one that is refused
      } else {
        drop(batch);
        emit("refused", error.message);
        await restore(batch[0].at);
      }
    }
  }
  sending = false;
}

// Show what the server holds about a sample.
async function restore(at) {
  try {
    const { decisions } = await getJson("decisions?since=0");
    setDecisions([decisions.find(each => each.at === at) ?? { at, ...NO_DECISION }]);
  } catch { /* the next page shows it */ }
}

function drop(batch) {
  const keys = new Set(batch.map(each => each.key));
  queue = queue.filter(each => !keys.has(each.key));
  keep();
}

let hiding = new AbortController();
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return;
  hiding.abort();
  hiding = new AbortController();
});

// Receive the decisions of other tabs while this one is visible. A browser opens few connections to one server, and
// each waiting tab takes one.
export async function follow(version) {
  for (;;) {
    if (document.hidden) await becomesVisible();
    try {
      const answer = await getJson(`decisions?since=${version}&wait=${POLL_SECONDS}`, { signal: hiding.signal });
      answered();
      if (answer.version < version) location.reload();  // the log was removed
      version = answer.version;
      setDecisions(answer.decisions.filter(each => isNewer(each.at, version)));
    } catch (error) {
      if (error.name === "AbortError") continue;
      lost(error);
      await wait(RETRY_MS);
    }
  }
}

const isNewer = (at, version) => !queue.some(each => each.at === at) && (confirmed.get(at) ?? 0) <= version;

const becomesVisible = () => new Promise(done => document.addEventListener("visibilitychange", done, { once: true }));
const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));

function answered() {
  if (problem === null) return;
  problem = null;
  emit("saving", unsent());
}

// Without an answer, or if the address is no longer valid, there is no server.
function lost({ status, message }) {
  problem = status === null || status === 403 ? GONE : message;
  emit("saving", unsent());
}

addEventListener("beforeunload", event => { if (queue.length && !isKept) event.preventDefault(); });
