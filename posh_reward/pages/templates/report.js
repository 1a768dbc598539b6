// ---- the list: rows are [name, members, step of a run]; a member (null for a missing model) is
// [precision, recall, f1, elements, start of the text, number of the pair, marks, values, f1 as it
// counts in means]: bit (side * 3 + kind) * 5 + grade of the marks, bit `value` of the sentences'

const [F1, ELEMENTS, BEGINNING, NUMBER, MARKS, SENTENCES, COUNTED_F1] = [2, 3, 4, 5, 6, 7, 8];
const GRADES = 5;
const STEP = 200;  // rows drawn at a time
const figureNames = unpack("figures");
const figureValues = unpack("figure-values");
const models = unpack("models");
const baseline = unpack("baseline");
const rows = unpack("rows");
const columns = document.querySelectorAll("#pairs thead th");
const list = document.querySelector("#pairs tbody");
let shown = rows.map((_, index) => index);
let drawn = 0;

// Sort keys by column; of several models, the lowest score counts.
const least = (values) => values.length ? Math.min(...values) : null;
const lowestOf = (field) => ([, members]) => least(members.flatMap((member) => member?.[field] ?? []));

// f1 of each model minus the baseline's; null for the baseline and for missing scores.
function gains([, members]) {
  const all = members.map((member) => member?.[COUNTED_F1] ?? null);
  const before = all[baseline];
  return all.map((after, place) =>
    before === null || after === null || place === baseline ? null : after - before);
}

const lowestGain = (row) => least(gains(row).filter((value) => value !== null));
const KEYS = [([name]) => name, lowestOf(0), lowestOf(1), lowestOf(F1), lowestOf(ELEMENTS), lowestGain];

function score(value) {
  const line = make("div", { class: value === null ? "line none" : "line" }, figure(value, 3));
  if (value !== null) {
    const level = make("i");
    level.style.width = `${100 * value}%`;
    line.append(make("span", { class: "gauge", "aria-hidden": "true" }, level));
  }
  return line;
}

function draw(index) {
  const [name, members] = rows[index];
  const several = columns.length > 6;
  const lines = (options, draw) => make("td", options, ...members.map((member) =>
    member ? draw(member) : make("div", { class: "line none" }, "–")));
  const plain = (text) => make("div", { class: "line" }, text);
  const button = make("button", { "aria-expanded": "false" }, make("bdi", {}, name));
  const named = () => models.map((model) =>
    make("div", { class: "line", title: model }, make("bdi", {}, model)));
  const step = rows[index][2];
  const cells = [make("td", { class: "name" }, button)];
  if (step !== null) cells[0].append(make("div", { class: "model" }, `step ${step}`));
  if (several) {
    cells[0].append(make("div", { class: "model narrow" }, ...named()));
    cells.push(make("td", { class: "model wide" }, ...named()));
  }
  for (const field of [0, 1, F1]) cells.push(lines({ class: "n" }, (it) => score(it[field])));
  if (models.length > 1) cells.push(make("td", { class: "n wide" },
    ...gains(rows[index]).map((value) => plain(signed(value)))));
  cells.push(lines({ class: "n wide" }, (it) => plain(String(it[ELEMENTS]))));
  cells.push(lines({ class: "start wide", dir: "auto" }, (it) => plain(it[BEGINNING])));
  return make("tr", { class: several ? "pair several" : "pair", data: { index } }, ...cells);
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
  const all = `${rows.length.toLocaleString("en")} ${models.length > 1 ? "ids" : "pairs"}`;
  byId("count").textContent = shown.length === rows.length ? all
    : `${shown.length.toLocaleString("en")} of ${all}`;
  if (lost) byId("count").textContent += `; there is no pair ${lost}`;
  drawMore();
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || b === null) return 0;
  return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
}

function arrange() {
  const sorted = [...columns].find((th) => th.hasAttribute("aria-sort"));
  const key = KEYS[sorted.querySelector("button").dataset.column];
  const sign = sorted.getAttribute("aria-sort") === "ascending" ? 1 : -1;
  const keys = new Map(shown.map((index) => [index, key(rows[index])]));
  shown.sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    // Rows without a score come last in either direction.
    return (a === null) - (b === null) || sign * compare(a, b) || one - other;
  });
  if (pinned !== null) shown = [pinned, ...shown.filter((index) => index !== pinned)];
  redraw();
}

// ---- filters

const filters = [...document.querySelectorAll("[data-filter]")];
const chosen = (name) => byId(name)?.value.trim() ?? "";

// A run's page has a slider over the steps of which completions are shown; at 0 it is off.
const shownSteps = byId("shown-steps") ? unpack("shown-steps") : [];
const chosenStep = () => shownSteps[Number(chosen("step")) - 1] ?? null;

function valueOf(control) {
  return control.type === "range" ? String(chosenStep() ?? "") : control.value;
}

function setValue(control, value) {
  control.value = control.type === "range" ? String(shownSteps.indexOf(Number(value)) + 1) : value;
}

// Searches the packed texts as they are: unpacking thousands of pairs would take seconds.
function finder(wanted) {
  const packed = JSON.stringify(wanted.slice(0, 500)).slice(1, -1).replaceAll("<", "\\u003c");
  const pattern = new RegExp(packed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
  return ([name, members]) => pattern.test(JSON.stringify(name).replaceAll("<", "\\u003c"))
    || members.some((member) => member && pattern.test(byId(`pair-${member[NUMBER]}`).textContent));
}

// A detail of the table: [side, kind, text], which a pair has if it is unsupported there.
let chosenDetail = null;
const MIN_SUPPORTED = unpack("details").supported;

function hasDetail([side, kind, text]) {
  const within = (member) => unpack(`pair-${member[NUMBER]}`)[2].some((element) =>
    element[1] === side && element[2] === kind && element[3] !== null && element[3] < MIN_SUPPORTED
    && element[4].toLowerCase() === text);
  return ([, members]) => members.some((member) => member && within(member));
}

// The marks that the filters ask for: with a kind or a side alone, any that is not clear.
function wantedMarks() {
  const [side, kind, grade] = [chosen("side"), chosen("kind"), chosen("grade")];
  let marks = 0;
  for (let place = 0; place < SIDES.length * KINDS.length; place += 1) {
    if (side && Number(side) !== Math.floor(place / KINDS.length)) continue;
    if (kind && Number(kind) !== place % KINDS.length) continue;
    for (let at = 0; at < GRADES; at += 1) {
      if (grade ? Number(grade) === at : at !== LEVELS.length) marks |= 1 << (place * GRADES + at);
    }
  }
  return marks;
}

function tests() {
  const found = [];
  const some = (test) => found.push(([, members]) => members.some((member) => member && test(member)));
  if (chosen("find")) found.push(finder(chosen("find")));
  if (chosen("side") || chosen("kind") || chosen("grade")) {
    const marks = wantedMarks();
    some((member) => member[MARKS] & marks);
  }
  if (chosen("value")) some((member) => member[SENTENCES] & (1 << Number(chosen("value"))));
  if (chosen("scored")) some((member) => (member[F1] !== null) === (chosen("scored") === "1"));
  if (chosenDetail) found.push(hasDetail(chosenDetail));
  if (chosenStep() !== null) found.push(([, , step]) => step === chosenStep());
  return found;
}

function filter() {
  const all = tests();
  document.dispatchEvent(new Event("filtered"));
  byId("detail").textContent = chosenDetail ? `${SIDES[chosenDetail[0]]}, unsupported: ${chosenDetail[2]} (${KINDS[chosenDetail[1]]})` : "";
  shown = rows.map((_, index) => index).filter((index) => all.every((test) => test(rows[index])));
  byId("clear").hidden = !all.length && pinned === null;
  arrange();
}

// ---- the address has the filters, the order and the open pair, so that it can be sent

let lost = "";  // the pair that the address names, if it is not here
let pinned = null;  // index of the pair that the address names, which comes first

// Several completions of a run may have one id.
const keys = new Map();
const keyed = rows.map(([name, , step]) => {
  const key = step === null ? name : `${step}/${name}`;
  keys.set(key, (keys.get(key) ?? 0) + 1);
  return keys.get(key) === 1 ? key : `${key}/${keys.get(key)}`;
});
const keyOf = (index) => keyed[index];

function save() {
  const state = new URLSearchParams();
  for (const control of filters) if (valueOf(control)) state.set(control.id, valueOf(control));
  const sorted = [...columns].find((th) => th.hasAttribute("aria-sort"));
  const order = `${sorted.querySelector("button").dataset.column}${sorted.getAttribute("aria-sort") === "ascending" ? "" : "-"}`;
  if (order !== "3") state.set("sort", order);
  if (chosenDetail) state.set("detail", chosenDetail.join("."));
  if (pinned !== null) state.set("pair", keyOf(pinned));
  const hash = state.toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

function restore() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const control of filters) setValue(control, state.get(control.id) ?? "");
  const [, column, down] = /^(\d)(-?)$/.exec(state.get("sort") ?? "3") ?? [null, "3", ""];
  const wanted = [...columns].find((th) => th.querySelector("button")?.dataset.column === column);
  if (wanted) {
    for (const th of columns) th.removeAttribute("aria-sort");
    wanted.setAttribute("aria-sort", down ? "descending" : "ascending");
  }
  const [, side, kind, text] = /^([01])\.([012])\.(.*)$/s.exec(state.get("detail") ?? "") ?? [];
  chosenDetail = text === undefined ? null : [Number(side), Number(kind), text];
  const place = state.has("pair") ? keyed.indexOf(state.get("pair")) : -1;
  pinned = place < 0 ? null : place;
  lost = place < 0 ? state.get("pair") ?? "" : "";
  filter();
  if (pinned !== null) {
    const row = list.querySelector(`[data-index="${pinned}"]`);
    toggle(row);
    row.scrollIntoView({ block: "start" });
  }
}

function toggle(row) {
  const button = row.querySelector("button");
  const open = row.classList.toggle("open");
  button.setAttribute("aria-expanded", String(open));
  const index = Number(row.dataset.index);
  if (open) pinned = index;
  else if (pinned === index) pinned = null;
  byId("clear").hidden = !tests().length && pinned === null;
  save();
  if (!open) return row.nextElementSibling.remove();
  const cell = make("td", {}, sheet(index));
  row.after(make("tr", { class: "detail" }, cell));
  spread();
}

// A narrow window hides columns, and a cell must not span hidden ones.
function spread() {
  const visible = [...columns].filter((th) => th.getClientRects().length).length;
  for (const cell of list.querySelectorAll(".detail > td")) cell.colSpan = visible;
}

// ---- tips

const tip = byId("tip");
let pointed = null;

function showTip(mark) {
  hideTip();
  pointed = mark;
  tip.replaceChildren(...mark.reasons.map(([sign, reason]) =>
    make("span", {}, make("b", {}, sign), reason)));
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
    pinned = null;
    arrange();
    save();
  });
}
function refresh() {
  [pinned, lost] = [null, ""];
  filter();
  save();
}
let pause;
for (const control of filters) {
  control.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(refresh, control.type === "search" ? 150 : 0);
  });
}
byId("clear").addEventListener("click", () => {
  for (const control of filters) setValue(control, "");
  chosenDetail = null;
  refresh();
});
byId("more").addEventListener("click", drawMore);
window.addEventListener("resize", () => { spread(); placeTip(); });
window.addEventListener("hashchange", restore);
window.addEventListener("DOMContentLoaded", restore);
