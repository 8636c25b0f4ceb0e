// Details of samples (id, text, evidence, …), fetched in batches and kept while there is room.

import { getJson } from "./api.js";

const PER_REQUEST = 100;
const KEPT = 4000;
const kept = new Map();      // by position, the oldest first
const expected = new Map();  // by position: the request under way

export const sampleAt = at => kept.get(at);

// Return the details of samples, in order.
export async function loadSamples(positions) {
  const missing = positions.filter(at => !kept.has(at) && !expected.has(at));
  for (let start = 0; start < missing.length; start += PER_REQUEST) request(missing.slice(start, start + PER_REQUEST));
  await Promise.all(positions.map(at => expected.get(at)));
  return positions.map(sampleAt);
}

function request(positions) {
  const answer = getJson(`samples?at=${positions.join(",")}`).then(samples => {
    for (const each of samples) kept.set(each.at, each);
    for (const at of kept.keys()) {
      if (kept.size <= KEPT) break;
      kept.delete(at);
    }
  }).finally(() => { for (const at of positions) expected.delete(at); });
  for (const at of positions) expected.set(at, answer);
}
