// The map: all samples as points. Draw a line around some of them, or place a circle with the keyboard, to show them.

import { getBytes } from "./api.js";
import { byId, grouped, make, option } from "./dom.js";
import { showChosen } from "./filters.js";
import { currentAt, shownOrder } from "./list.js";
import { isShown } from "./panel.js";
import { isBlind } from "./selection.js";
import { classCounts, className, isDecided, isSuspect, on, state } from "./state.js";

const CLASS_COLOURS = [
  "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7b4fa3", "#7f9a00", "#a0522d", "#e05780",
];
const MANY = 20_000;  // points that are drawn small
const HELP = "Similar samples are near each other. Draw around samples to show them. With the keyboard: arrow keys "
  + "move a circle, + and − change its size, Enter shows what is inside.";
const STATE_COLOURS = { suspect: "#d55e00", decided: "#009e73" };
const STEP = 0.03;  // of the circle, in parts of the canvas
const tab = byId("map"), canvas = make("canvas", { tabindex: "0", role: "img" });
const drawing = canvas.getContext("2d");
const dark = matchMedia("(prefers-color-scheme: dark)");

const kindChoice = make("select");
const colourChoice = make("select", {}, option("given", "given class"), option("state", "decided and suspect"));
const legend = make("ul", { class: "colours" }), message = make("p", { class: "soft" });
const maps = new Map();       // by kind: {x, y}
let points = null;            // the map that is shown
let picture = null;           // its points, drawn
let line = [];                // being drawn, in parts of the canvas
let circle = null;            // placed with the keyboard
let colours = null;           // by class

export function start() {
  kindChoice.append(...state.about.maps.map(kind => option(kind, kind.toUpperCase())));
  const kinds = make("label", {}, "map ", kindChoice), choices = make("p", { class: "choices" }, kinds);
  kinds.hidden = state.about.maps.length < 2;
  choices.append(make("label", {}, "colour ", colourChoice));
  tab.append(choices, canvas, legend, message, make("p", { class: "soft" }, HELP));
  canvas.setAttribute("aria-label", "map of all samples; arrow keys move a circle, Enter shows the samples inside");
  kindChoice.addEventListener("change", open);
  colourChoice.addEventListener("change", draw);
  canvas.addEventListener("pointerdown", begin);
  canvas.addEventListener("pointermove", extend);
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", () => { line = []; paint(); });
  canvas.addEventListener("keydown", pressed);
  canvas.addEventListener("blur", () => { circle = null; paint(); });
  new ResizeObserver(draw).observe(canvas);
  dark.addEventListener("change", draw);
  on("tab", () => { if (isShown("map") && !points) open(); });
  for (const name of ["order", "decided"]) on(name, draw);
  on("current", paint);
}

async function open() {
  const kind = kindChoice.value;
  message.textContent = maps.has(kind) ? "" : "The map is being computed …";
  try {
    if (!maps.has(kind)) {
      const bytes = await getBytes(`map?kind=${kind}`);
      maps.set(kind, { x: new Float32Array(bytes, 0, state.n), y: new Float32Array(bytes, 4 * state.n, state.n) });
    }
    if (kind !== kindChoice.value) return;
    points = maps.get(kind);
    message.textContent = "";
    draw();
  } catch (error) {
    message.textContent = `There is no map. ${error.message}`;
  }
}

// From −1 … 1 to parts of the canvas, with a margin.
const across = x => 0.02 + 0.48 * (x + 1), down = y => 0.02 + 0.48 * (1 - y);

// Draw the points into a picture, the most suspicious last. Points that the list does not show are faint.
function draw() {
  if (!points || !isShown("map") || !canvas.clientWidth) return;
  const side = Math.round(canvas.clientWidth * devicePixelRatio);
  const dot = Math.max(1, Math.round((state.n > MANY ? 1.5 : 4) * devicePixelRatio));
  canvas.width = canvas.height = side;
  picture = drawing.createImageData(side, side);
  const pixels = new Uint32Array(picture.data.buffer), isListed = new Uint8Array(state.n);
  for (const at of shownOrder()) isListed[at] = 1;
  const faint = packed(dark.matches ? "#30363f" : "#e3e6ea"), colour = colourBy();
  for (const listed of [0, 1]) {
    for (let at = state.n - 1; at >= 0; at--) {
      if (isListed[at] !== listed) continue;
      const left = Math.round(across(points.x[at]) * side), top = Math.round(down(points.y[at]) * side);
      const value = listed ? colour(at) : faint;
      for (let y = top; y < top + dot; y++) pixels.fill(value, y * side + left, y * side + left + dot);
    }
  }
  paint();
}

function colourBy() {
  const plain = packed(dark.matches ? "#7d8590" : "#9aa1ab");
  if (colourChoice.value === "state") {
    const [suspect, decided] = [STATE_COLOURS.suspect, STATE_COLOURS.decided].map(packed);
    showLegend([[STATE_COLOURS.suspect, "more likely wrong than right"], [STATE_COLOURS.decided, "decided"]]);
    return at => isDecided(at) ? decided : isSuspect(at) ? suspect : plain;
  }
  colours ??= byFrequency();
  const values = new Uint32Array(state.about.classes.length).fill(plain);
  for (const [label, colour] of colours) values[label] = packed(colour);
  showLegend([...colours].map(([label, colour]) => [colour, className(label)]));
  return at => values[state.given[at]];
}

function byFrequency() {
  const counts = classCounts(state.given);
  const labels = [...counts.keys()].sort((a, b) => counts[b] - counts[a]).slice(0, CLASS_COLOURS.length);
  return new Map(labels.map((label, place) => [label, CLASS_COLOURS[place]]));
}

function showLegend(entries) {
  legend.replaceChildren(...entries.map(([colour, name]) => {
    const sign = make("span", { "aria-hidden": "true" });
    sign.style.background = colour;
    return make("li", {}, sign, make("bdi", {}, name));
  }));
}

// As a pixel: bytes in the order red, green, blue, opacity.
function packed(colour) {
  const [red, green, blue] = [1, 3, 5].map(start => parseInt(colour.slice(start, start + 2), 16));
  return (0xff000000 | blue << 16 | green << 8 | red) >>> 0;
}

// Paint the picture, the current sample, and what is being drawn.
function paint() {
  if (!picture || !isShown("map")) return;
  const side = canvas.width, at = currentAt();
  drawing.putImageData(picture, 0, 0);
  drawing.strokeStyle = getComputedStyle(canvas).color;
  drawing.lineWidth = 2 * devicePixelRatio;
  const ring = (x, y, radius) => {
    drawing.beginPath();
    drawing.arc(x * side, y * side, radius * side, 0, 2 * Math.PI);
    drawing.stroke();
  };
  if (at !== null && !isBlind(at)) ring(across(points.x[at]), down(points.y[at]), 0.018);
  if (circle) ring(circle.x, circle.y, circle.radius);
  drawing.beginPath();
  for (const [x, y] of line) drawing.lineTo(x * side, y * side);
  drawing.stroke();
}

const placeOf = event => [event.offsetX / canvas.clientWidth, event.offsetY / canvas.clientHeight];

function begin(event) {
  if (!points) return;
  canvas.setPointerCapture(event.pointerId);
  line = [placeOf(event)];
}

function extend(event) {
  if (!line.length) return;
  line.push(placeOf(event));
  paint();
}

function finish() {
  const corners = line;
  line = [];
  if (corners.length > 2) pick((x, y) => isInside(x, y, corners)); else paint();
}

// Count how often a ray from the point crosses the line: an odd number of times from inside.
function isInside(x, y, corners) {
  let inside = false;
  for (let here = 0, before = corners.length - 1; here < corners.length; before = here++) {
    const [x1, y1] = corners[here], [x2, y2] = corners[before];
    if (y1 > y !== y2 > y && x < (x2 - x1) * (y - y1) / (y2 - y1) + x1) inside = !inside;
  }
  return inside;
}

function pick(test) {
  const found = [];
  for (let at = 0; at < state.n; at++) if (test(across(points.x[at]), down(points.y[at]))) found.push(at);
  message.textContent = found.length ? `${grouped(found.length)} chosen` : "Nothing is inside.";
  if (found.length) showChosen("chosen on the map", found); else paint();
}

function pressed(event) {
  const moves = { ArrowRight: [STEP, 0], ArrowLeft: [-STEP, 0], ArrowDown: [0, STEP], ArrowUp: [0, -STEP] };
  const sizes = { "+": STEP / 3, "-": -STEP / 3 };
  if (!points || !(event.key in moves) && !(event.key in sizes) && event.key !== "Enter") return;
  event.preventDefault();
  circle ??= { x: 0.5, y: 0.5, radius: 0.1 };
  const { x, y, radius } = circle, [right, below] = moves[event.key] ?? [0, 0];
  circle.x = Math.max(0, Math.min(1, x + right));
  circle.y = Math.max(0, Math.min(1, y + below));
  circle.radius = Math.max(0.01, Math.min(0.5, radius + (sizes[event.key] ?? 0)));
  if (event.key === "Enter") pick((px, py) => Math.hypot(px - x, py - y) <= radius); else paint();
}
