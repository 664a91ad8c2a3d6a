// SPDX-License-Identifier: Apache-2.0
// As much of a browser's document as the sweep's page needs, for a bare JavaScript engine.
// The engine sets `ids` (id to tag name) and `dataText` before the page's own scripts run.
"use strict";

class Element {
  constructor(tag) {
    this.tag = tag;
    this.attributes = {};
    this.children = [];
    this.listeners = {};
    this.style = {};
    this.parentNode = null;
    this.text = "";
    this.clientWidth = 1000;
    const names = new Set();
    this.classList = {
      toggle: (name, on) => (on ? names.add(name) : names.delete(name)),
      contains: (name) => names.has(name) || (this.attributes.class ?? "").split(" ").includes(name),
    };
  }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name === "value") this.value = String(value);
    if (name === "checked") this.checked = true;
  }
  getAttribute(name) { return this.attributes[name] ?? null; }
  addEventListener(name, listener) { (this.listeners[name] ??= []).push(listener); }
  append(...items) {
    for (const item of items) {
      if (item instanceof Element) {
        item.parentNode?.remove(item);
        item.parentNode = this;
      }
      this.children.push(item);
    }
  }
  remove(item) { this.children = this.children.filter((child) => child !== item); }
  replaceChildren(...items) {
    this.children = [];
    this.append(...items);
  }
  get textContent() {
    return this.text + this.children.map((c) => (c instanceof Element ? c.textContent : c)).join("\n");
  }
  set textContent(text) {
    this.children = [];
    this.text = String(text);
  }
  fire(name) { (this.listeners[name] ?? []).forEach((listener) => listener({ target: this })); }
  all(tag) {
    const below = this.children.filter((c) => c instanceof Element).flatMap((c) => c.all(tag));
    return this.tag === tag ? [this, ...below] : below;
  }
  getContext() {
    this.calls = 0;
    return new Proxy({}, {
      get: (_, name) => () => {
        this.calls += 1;
        return name === "measureText" ? { width: 60 } : undefined;
      },
      set: () => true,
    });
  }
}

const known = Object.fromEntries(Object.entries(ids).map(([id, tag]) => [id, new Element(tag)]));
new Element("body").append(...Object.values(known));
known.data.textContent = dataText;
globalThis.document = {
  documentElement: known.data,
  getElementById: (id) => known[id],
  createElement: (tag) => new Element(tag),
  createElementNS: (space, tag) => new Element(tag),
};
globalThis.window = globalThis;
globalThis.addEventListener = () => {};
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#888" });
globalThis.matchMedia = () => ({ addEventListener: () => {} });
globalThis.devicePixelRatio = 1;

// What the tests ask, and do.
globalThis.ask = {
  count: () => known.count.textContent,
  visible: () => known.scatter.all("circle").filter((c) => c.style.display !== "none").length,
  details: () => known.details.textContent,
  lines: () => known.table.all("tr").length - 1,
  first: () => known.table.all("tr")[1].getAttribute("data-row"),
  point: (row) =>
    known.scatter.all("circle").find((c) => c.getAttribute("data-row") === String(row)).fire("click"),
  head: (name) => known.table.all("th").find((c) => c.textContent.startsWith(name)).fire("click"),
  box: (value, on) => {
    const box = known.filters.all("input").find((c) => c.value === value);
    box.checked = on;
    box.fire("change");
  },
  slide: (column, which, value) => {
    const slider = known.filters
      .all("input")
      .find((c) => c.getAttribute("data-column") === column && c.getAttribute("class") === which);
    slider.value = String(value);
    slider.fire("input");
  },
  press: (id) => known[id].fire("click"),
  axis: (id, index) => {
    known[id].value = String(index);
    known[id].fire("change");
  },
  place: (row) =>
    known.scatter.all("circle").find((c) => c.getAttribute("data-row") === String(row)).getAttribute("cx"),
};
