// What a sample is, as elements: its picture, its text with the evidence marked, its numbers and further columns.

import { pictureOf } from "./api.js";
import { bdi, make } from "./dom.js";

export function picture(at, large = false) {
  const image = make("img", { src: pictureOf(at, large), alt: "picture of the sample", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(make("span", { class: "none" }, "no picture")));
  return image;
}

export function markedText(text, evidence) {
  const whole = bdi("");
  let done = 0;
  for (const [start, end, weight] of [...evidence].sort((a, b) => a[0] - b[0])) {
    if (start < done || weight === 0) continue;
    const side = weight > 0 ? "suggested" : "given";
    const mark = make("mark", { class: `for-${side}`, title: `speaks for the ${side} class` }, text.slice(start, end));
    mark.style.setProperty("--weight", Math.abs(weight).toFixed(2));
    whole.append(text.slice(done, start), mark);
    done = end;
  }
  whole.append(text.slice(done));
  return whole;
}

export function textOf(sample, blind) {
  return make("p", { class: "text" }, markedText(sample.text || "(empty)", blind ? [] : sample.evidence));
}

export function numbersTable(numbers, blind) {
  const cell = (value, name) => make("td", { class: name }, shortNumber(value));
  const head = make("tr", {}, ...["column", "here"].map(each => make("th", { scope: "col" }, each)));
  if (!blind) head.append(...["given", "suggested"].map(each => make("th", { scope: "col", class: each }, each)));
  const rows = numbers.map(([column, value, given, suggested]) => {
    const row = make("tr", {}, make("th", { scope: "row", title: column }, bdi(column)), cell(value));
    if (!blind) row.append(cell(given, "given"), cell(suggested, "suggested"));
    return row;
  });
  const label = blind ? "numbers of the sample" : "numbers of the sample, and what is typical of either class";
  return make("table", { class: "numbers", "aria-label": label }, make("thead", {}, head), make("tbody", {}, ...rows));
}

export function valuesTable(values) {
  const rows = values.map(([column, value]) => make("tr", {},
    make("th", { scope: "row", title: column }, bdi(column)), make("td", { title: value }, bdi(value))));
  return make("table", { class: "numbers values", "aria-label": "further columns" }, make("tbody", {}, ...rows));
}

// Everything but the picture.
export function described(sample, blind) {
  const parts = [];
  if (sample.text !== null) parts.push(textOf(sample, blind));
  if (sample.numbers?.length) parts.push(numbersTable(sample.numbers, blind));
  if (sample.values?.length) parts.push(valuesTable(sample.values));
  return parts;
}

export function shortNumber(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  return Math.abs(value) < 1000 ? String(Number(value.toPrecision(3))) : Math.round(value).toLocaleString("en-US");
}
