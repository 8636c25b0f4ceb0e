// The list of cards. Only those in view, a few rows around them and the focused one are in the document.

import { newCard, showDetails, showPicture } from "./card.js";
import { byId } from "./dom.js";
import { loadSamples } from "./samples.js";
import { Scroll } from "./scroll.js";
import { emit, isDecided, on } from "./state.js";

const GAP = 12;
const ROWS_AROUND = 1;
const FILL_MS = 70;  // cards that are passed more quickly load nothing
const RETRY_MS = 2000;

const layer = byId("list"), scroller = byId("scroller"), size = byId("card-size");
const scroll = new Scroll(scroller);
const cards = new Map();  // by place in the list
let order = new Uint32Array(0);
let columns = 1, width = 0, rowHeight = 1;
let current = -1;         // place of the focused card
let frame = 0, filling = 0, filledTop = 0;

export const shownOrder = () => order;
export const columnCount = () => columns;
export const currentPlace = () => current;
export const currentAt = () => current >= 0 ? order[current] : null;

export function start() {
  scroller.addEventListener("scroll", () => { frame ||= requestAnimationFrame(scrolled); }, { passive: true });
  new ResizeObserver(() => layout()).observe(scroller);
  layer.addEventListener("focusin", event => {
    const card = event.target.closest(".card");
    if (card) setCurrent(placeOf(card));
  });
  on("decided", refresh);
}

// Show these positions in this order, beginning at their top, or at the first undecided one.
export function showOrder(positions, atUndecided) {
  const hadFocus = layer.contains(document.activeElement);
  order = positions;
  layer.replaceChildren();
  cards.clear();
  current = -1;
  byId("nothing").hidden = order.length > 0;
  layout();
  scroll.go(0);
  const place = atUndecided ? Math.max(0, nextUndecided(-1)) : 0;
  if (place) reveal(place);
  setCurrent(order.length ? place : -1);
  render();
  if (hadFocus) cards.get(current)?.focus({ preventScroll: true });
}

// Move the focus to a place of the list, scrolling as little as needed.
export function go(place) {
  if (order.length === 0) return;
  place = Math.max(0, Math.min(order.length - 1, place));
  reveal(place);
  setCurrent(place);
  render();
  cards.get(place)?.focus({ preventScroll: true });
}

export function goToSample(at) {
  const place = order.indexOf(at);
  if (place >= 0) go(place);
  return place >= 0;
}

// Return the place of the next undecided sample, or -1.
export function nextUndecided(place) {
  for (let next = place + 1; next < order.length; next++) if (!isDecided(order[next])) return next;
  return -1;
}

const placeOf = card => Number(card.dataset.place);
const step = () => rowHeight + GAP;
const rowOf = place => Math.floor(place / columns);

// Keys act on one card. The Tab key reaches it, then the buttons in it.
function setCurrent(place) {
  if (place !== current) {
    mark(cards.get(current), false);
    current = place;
    emit("current", currentAt());
  }
  mark(cards.get(current), true);
}

function mark(card, isCurrent) {
  if (!card) return;
  card.classList.toggle("current", isCurrent);
  for (const each of [card, ...card.querySelectorAll("button")]) each.tabIndex = isCurrent ? 0 : -1;
}

// Measure again and place all cards.
function layout() {
  const style = getComputedStyle(scroller);
  const room = scroller.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const before = `${columns} ${rowHeight}`, seen = Math.round(scroll.top / step()) * columns;
  rowHeight = size.offsetHeight;
  columns = Math.max(1, Math.floor((room + GAP) / (size.offsetWidth + GAP)));
  width = (room - GAP * (columns - 1)) / columns;
  scroll.height = Math.ceil(order.length / columns) * step() + GAP;
  layer.style.height = `${scroll.shownHeight}px`;
  if (before !== `${columns} ${rowHeight}`) scroll.go(rowOf(seen) * step());
  for (const [place, card] of cards) position(card, place);
  render();
}

function position(card, place) {
  const x = (place % columns) * (width + GAP), y = rowOf(place) * step() + GAP - scroll.shift;
  card.style.transform = `translate(${x}px, ${y}px)`;
  card.style.width = `${width}px`;
}

function scrolled() {
  frame = 0;
  if (scroll.follow()) for (const [place, card] of cards) position(card, place);
  render();
}

function reveal(place) {
  const top = rowOf(place) * step(), bottom = top + step() + GAP, view = scroll.view;
  if (top < scroll.top || step() > view / 2 && bottom > scroll.top + view) scroll.go(top);
  else if (bottom > scroll.top + view) scroll.go(bottom - view);
  else return;
  for (const [each, card] of cards) position(card, each);
}

function render() {
  const first = Math.max(0, Math.floor(scroll.top / step()) - ROWS_AROUND) * columns;
  const end = Math.min(order.length, (Math.ceil((scroll.top + scroll.view) / step()) + ROWS_AROUND) * columns);
  for (const [place, card] of cards) {
    if (place >= first && place < end || place === current) continue;
    card.remove();
    cards.delete(place);
  }
  let next = layer.firstElementChild;
  if (next && placeOf(next) < first) next = next.nextElementSibling;  // the focused card, out of view
  for (let place = first; place < end; place++) {
    const card = cards.get(place);
    if (card) next = card.nextElementSibling; else layer.insertBefore(added(place), next);
  }
  filling ||= setTimeout(fill, FILL_MS);
}

function added(place) {
  const card = newCard(order[place], place, order.length);
  card.dataset.place = place;
  cards.set(place, card);
  position(card, place);
  if (place === current) mark(card, true);
  return card;
}

// Load what the cards show, unless the list is scrolled by more than a screen at a time.
async function fill() {
  const moved = Math.abs(scroll.top - filledTop);
  filledTop = scroll.top;
  filling = moved ? setTimeout(fill, FILL_MS) : 0;
  if (moved > scroll.view) return;
  if (!moved && scroll.settle()) for (const [place, card] of cards) position(card, place);
  const filled = [...cards.values()];
  filled.forEach(showPicture);
  layer.setAttribute("aria-busy", "true");
  const missing = filled.filter(card => !card.dataset.filled);
  try {
    await loadSamples(missing.map(card => Number(card.dataset.at)));
  } catch {
    filling ||= setTimeout(fill, RETRY_MS);
    return;
  }
  for (const card of missing) {
    card.dataset.filled = "yes";
    showDetails(card);
  }
  layer.setAttribute("aria-busy", "false");
}

function refresh(positions) {
  const changed = new Set(positions);
  for (const card of cards.values()) if (changed.has(Number(card.dataset.at))) showDetails(card);
}
