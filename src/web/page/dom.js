// Elements, made without HTML from text: whatever a job or a user is called stays text. Changes only what is different.
import { printable } from "./format.js";

// h("a", {href: "#/", text: "…"}, children…); properties and children that are null are left out.
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "text") element.textContent = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else set(element, key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// null and false take the attribute away.
export function set(element, attribute, value) {
  if (value == null || value === false) element.removeAttribute(attribute);
  else if (element.getAttribute(attribute) !== String(value)) element.setAttribute(attribute, value);
}

export const hide = (element, yes) => set(element, "hidden", yes ? "" : null);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setStyle(element, property, value) {
  if (element.style.getPropertyValue(property) !== value) element.style.setProperty(property, value);
}

export const section = (id, title, ...children) =>
  h("section", { "aria-labelledby": id }, h("h2", { id, text: title }), ...children);

// `options`: pairs of a value and a text.
export const select = (id, onchange, options) =>
  h("select", { id, onchange }, ...options.map(([value, text]) => h("option", { value, text })));

// What the colours mean: pairs of a text and a class.
export const keys = (...pairs) => h("p", { class: "keys", "aria-hidden": "true" }, ...pairs.map(([text, kind]) =>
  h("span", { class: "key" }, h("i", { class: `swatch ${kind}` }), text)));

// Makes the children of `parent` those of `items`: make(item) once for each key, update(element, item) each time.
const known = new WeakMap();
export function reconcile(parent, items, key, make, update) {
  const before = known.get(parent) ?? new Map(), now = new Map();
  let next = parent.firstChild;
  items.forEach((item, i) => {
    const id = key(item, i);
    if (now.has(id)) return;
    const element = before.get(id) ?? make(item);
    now.set(id, element);
    update(element, item);
    if (element === next) next = next.nextSibling;
    else parent.insertBefore(element, next);
  });
  for (const [id, element] of before) if (!now.has(id)) element.remove();
  known.set(parent, now);
}

// Of a table. cell(row) is a text, or {text, href, class, bar}. Where the window is narrow, columns with a rank go,
// the highest first. A column of the kind "long" is the heading of its rows.
export const column = (title, cell, rank = 0, kind = "", help = null) =>
  ({ title, cell, kind, help, class: `${kind}${rank ? ` rank${rank}` : ""}`.trim() || null });
export const figure = (title, cell, rank, help) => column(title, cell, rank, "right", help);

// A table whose rows are kept by their keys.
export class Table {
  constructor(caption, columns, key, empty) {
    Object.assign(this, { columns, key });
    this.body = h("tbody");
    this.note = h("p", { class: "dim", text: empty, hidden: "" });
    this.scroll = h("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": caption }, h("table", {},
      h("caption", { text: caption }),
      h("thead", {}, h("tr", {}, ...columns.map((one) =>
        h("th", { scope: "col", class: one.class, text: one.title, title: one.help })))),
      this.body));
    this.element = h("div", {}, this.scroll, this.note);
  }

  show(rows) {
    reconcile(this.body, rows, this.key, () => h("tr", {}, ...this.columns.map(({ kind }) =>
      (kind === "long" ? h("th", { scope: "row" }) : h("td")))), (element, row) => this.columns.forEach((one, i) => {
      const cell = one.cell(row);
      fill(element.children[i], cell?.text === undefined ? { text: cell } : cell, one.class ?? "");
    }));
    hide(this.note, rows.length > 0);
    hide(this.scroll, rows.length === 0);
  }
}

function fill(cell, { text, href, class: more = "", bar }, own) {
  let holder = cell;
  if (href || bar !== undefined) {
    if (!cell.firstChild) cell.append(h(href ? "a" : "span"), bar === undefined ? "" : h("div", { class: "part" }, h("i")));
    holder = cell.firstChild;
    if (href) set(holder, "href", href);
    else setStyle(cell.lastChild.firstChild, "width", `${((bar ?? 0) * 100).toFixed(1)}%`);
  }
  const shown = printable(String(text));
  setText(holder, shown);
  set(cell, "class", `${own} ${more}`.trim() || null);
  if (own.startsWith("long")) set(cell, "title", shown);  // it may be cut
}
