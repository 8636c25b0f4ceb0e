// Build and find elements. Names and texts of the data enter as text nodes or attributes, never as markup.

export const byId = id => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const bdi = text => make("bdi", {}, text);

// A name that may be broken after a sign between its words.
export const breakable = name => name.split(/(?<=[_/.-])/).flatMap(part => [part, make("wbr")]);

export const button = (text, action, attributes = {}) => {
  const made = make("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", action);
  return made;
};

export const grouped = count => count.toLocaleString("en-US");

export const counted = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

export const option = (value, text) => make("option", { value }, text);

// Read out by screen readers, not shown.
export function speak(text) {
  byId("spoken").textContent = text;
}
