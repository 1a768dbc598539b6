"use strict";
// Texts reach the page through textContent alone. A pair's texts are unpacked when it is opened.
const LEVELS = ["absent", "weak", "partial"];
const KINDS = ["entity", "attribute", "relation"];
const SIDES = ["written", "reference"];
const STEP = 200;
const byId = (id) => document.getElementById(id);
const unpack = (id) => JSON.parse(byId(id).textContent);

function make(tag, options = {}, ...children) {
  const { data = {}, ...attributes } = options;
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  Object.assign(element.dataset, data);
  element.append(...children);  // strings become text nodes
  return element;
}

// ---- what was asked: [wording, side, kind, grade, text, identifier, other, failure]

const wordings = unpack("wordings");

function asked([wording, , , , text, identifier, other, failure]) {
  const values = { text, identifier, other, failure };
  return wordings[wording].replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

const figure = (value, digits) => value === null ? "none" : value.toFixed(digits);
const level = (grade) => grade === null ? "failed" : LEVELS[Math.floor(grade) - 1] ?? "clear";

// ---- one pair

function marked(runs, elements) {
  return runs.map(([text, lowest, indices]) => {
    if (indices === undefined) return document.createTextNode(text);
    const digit = make("sup", {}, lowest === null ? "?" : String(Math.floor(lowest)));
    const mark = make("mark", { class: level(lowest), tabindex: "0" }, text, digit);
    mark.elements = indices.map((index) => elements[index]);
    return mark;
  });
}

function text(title, runs, elements) {
  const body = make("p", { class: "text", dir: "auto" }, ...marked(runs, elements));
  return make("section", {}, make("h3", {}, title), body);
}

function elementTable(elements) {
  const head = ["grade", "of", "kind", "asked"].map((name, column) =>
    make("th", column ? {} : { class: "n" }, name));
  const body = make("tbody");
  for (const element of elements) {
    const [, side, kind, grade] = element;
    body.append(make("tr", {},
      make("td", { class: `n ${level(grade)}` }, figure(grade, 1)),
      make("td", {}, SIDES[side]), make("td", {}, KINDS[kind]), make("td", {}, asked(element))));
  }
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), body);
}

function sheet(index) {
  const { written, reference, elements, failure } = unpack(`pair-${index}`);
  const box = make("div", { class: "sheet" });
  if (failure !== null) box.append(make("p", { class: "failure" }, `No score: ${failure}`));
  if (elements.length) box.append(byId("key").content.cloneNode(true));
  box.append(make("div", { class: "texts" },
    text("Written", written, elements), text("Reference", reference, elements)));
  if (elements.length) {
    const details = make("details", {},
      make("summary", {}, `All ${elements.length} elements, worst first`));
    details.addEventListener("toggle", () => details.append(elementTable(elements)), { once: true });
    box.append(details);
  }
  return box;
}

// ---- the list: rows are [name, mistakes, omissions, overall, elements, start of the text]

const rows = unpack("rows");
const columns = document.querySelectorAll("#pairs thead th");
const list = document.querySelector("#pairs tbody");
let shown = rows.map((_, index) => index);
let drawn = 0;

function score(value) {
  const cell = make("td", { class: value === null ? "n none" : "n" }, figure(value, 3));
  if (value !== null) {
    const level = make("i");
    level.style.width = `${100 * value}%`;
    cell.append(make("span", { class: "gauge", "aria-hidden": "true" }, level));
  }
  return cell;
}

function draw(index) {
  const [name, mistakes, omissions, overall, elements, start] = rows[index];
  const button = make("button", { "aria-expanded": "false" }, name);
  return make("tr", { class: "pair", data: { index } },
    make("td", { class: "name" }, button),
    score(mistakes), score(omissions), score(overall),
    make("td", { class: "n wide" }, String(elements)),
    make("td", { class: "start wide", dir: "auto" }, start));
}

function drawMore() {
  list.append(...shown.slice(drawn, drawn + STEP).map(draw));
  drawn = Math.min(drawn + STEP, shown.length);
  byId("more").hidden = drawn === shown.length;
  byId("more").textContent = `Show more (${shown.length - drawn} left)`;
}

function redraw() {
  drawn = 0;
  list.replaceChildren();
  const all = rows.length.toLocaleString("en");
  byId("count").textContent = shown.length === rows.length ? `${all} pairs`
    : `${shown.length.toLocaleString("en")} of ${all} pairs`;
  drawMore();
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || b === null) return 0;
  return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
}

function arrange() {
  const column = [...columns].findIndex((th) => th.hasAttribute("aria-sort"));
  const sign = columns[column].getAttribute("aria-sort") === "ascending" ? 1 : -1;
  shown.sort((one, other) => {
    const [a, b] = [rows[one][column], rows[other][column]];
    // What has no score comes last, whichever way the rest is sorted.
    return (a === null) - (b === null) || sign * compare(a, b) || one - other;
  });
  redraw();
}

// Searches the packed texts as they stand: unpacking thousands of pairs would take seconds.
function find(wanted) {
  const packed = JSON.stringify(wanted).slice(1, -1).replaceAll("<", "\\u003c");
  const pattern = new RegExp(packed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
  shown = rows.map((_, index) => index);
  if (wanted) shown = shown.filter((index) => pattern.test(byId(`pair-${index}`).textContent));
  arrange();
}

function toggle(row) {
  const button = row.querySelector("button");
  const open = row.classList.toggle("open");
  button.setAttribute("aria-expanded", String(open));
  if (!open) return row.nextElementSibling.remove();
  const cell = make("td", {}, sheet(Number(row.dataset.index)));
  row.after(make("tr", { class: "detail" }, cell));
  spread();
}

// A narrow window hides columns, and a cell must not span what is not there.
function spread() {
  const there = [...columns].filter((th) => th.getClientRects().length).length;
  for (const cell of list.querySelectorAll(".detail > td")) cell.colSpan = there;
}

// ---- tips

const tip = byId("tip");
let pointed = null;

function showTip(mark) {
  hideTip();
  pointed = mark;
  tip.replaceChildren(...mark.elements.map((element) =>
    make("span", {}, make("b", {}, figure(element[3], 1)), asked(element))));
  tip.hidden = false;
  mark.setAttribute("aria-describedby", "tip");
  placeTip();
}

function placeTip() {
  if (!pointed) return;
  const lines = pointed.getClientRects();
  const [first, last] = [lines[0], lines[lines.length - 1]];
  const { width, height } = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth - width - 12;
  const below = last.bottom + 6;
  const fits = below + height < window.innerHeight || first.top < height;
  tip.style.left = `${Math.max(12, Math.min(last.left, room))}px`;
  tip.style.top = `${fits ? below : first.top - height - 6}px`;
}

function hideTip() {
  tip.hidden = true;
  pointed?.removeAttribute("aria-describedby");
  pointed = null;
}

for (const [show, hide] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  list.addEventListener(show, ({ target }) => {
    const mark = target.closest("mark[tabindex]");
    if (mark) showTip(mark);
  });
  list.addEventListener(hide, ({ target }) => { if (target.closest("mark")) hideTip(); });
}
document.addEventListener("keydown", ({ key }) => { if (key === "Escape") hideTip(); });
document.addEventListener("scroll", placeTip, { passive: true });

// ---- controls

list.addEventListener("click", ({ target }) => {
  const row = target.closest("tr.pair");
  if (row && !String(getSelection())) toggle(row);
});
for (const th of columns) {
  th.querySelector("button")?.addEventListener("click", () => {
    const descending = th.getAttribute("aria-sort") === "ascending";
    for (const other of columns) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", descending ? "descending" : "ascending");
    arrange();
  });
}
let pause;
byId("find").addEventListener("input", ({ target }) => {
  clearTimeout(pause);
  pause = setTimeout(() => find(target.value.trim()), 150);
});
byId("more").addEventListener("click", drawMore);
window.addEventListener("resize", () => { spread(); placeTip(); });
arrange();
