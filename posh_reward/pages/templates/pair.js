"use strict";
// One pair, opened: its marked texts, elements and figures; and how to take it along.
// Texts reach the page only through textContent. A pair's texts are unpacked when it is opened.
const LEVELS = ["absent", "weak", "partial"];
const KINDS = ["entity", "attribute", "relation"];
const SIDES = ["written", "reference"];
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

// ---- questions: an element is
// [wording, side, kind, grade, text, identifier, other, failure, stated, looked]

const wordings = unpack("wordings");
const contradiction = unpack("contradiction");
const fill = (wording, values) => wording.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");

function question([wording, , , , text, identifier, other, failure, stated, looked]) {
  return fill(wordings[wording], { text, identifier, other, failure, stated, looked });
}

const signed = (value) => value === null ? "" : (value > 0 ? "+" : "") + value.toFixed(3);
const figure = (value, digits) => value === null ? "none" : value.toFixed(digits);
const level = (grade) => grade === null ? "failed" : LEVELS[Math.floor(grade) - 1] ?? "clear";

// ---- one pair

// A sentence is [value, start, end, and the probability of each value]; places count characters.

function contradicted(text, [, , , ...shares]) {
  const said = make("span", { class: "said" }, contradiction.name);
  const mark = make("mark", { class: "contradicted", tabindex: "0" }, said, text, make("sup", {}, "C"));
  const probabilities = shares.map((share, place) => [contradiction.values[place], figure(share, 2)]);
  mark.reasons = [["C", fill(contradiction.wording, Object.fromEntries(probabilities))]];
  return mark;
}

function marked(runs, elements, sentences) {
  return runs.map(([text, lowest, indices, seen, sentence]) => {
    if (indices === undefined) return document.createTextNode(text);
    if (sentence !== undefined) return contradicted(text, sentences[sentence]);
    const digit = make("sup", {}, seen ? "*" : lowest === null ? "?" : String(Math.floor(lowest)));
    const mark = make("mark", { class: seen ? "seen" : level(lowest), tabindex: "0" }, text, digit);
    mark.reasons = indices.map((index) => [figure(elements[index][3], 1), question(elements[index])]);
    return mark;
  });
}

function text(title, runs, elements, sentences) {
  const body = make("p", { class: "text", dir: "auto" }, ...marked(runs, elements, sentences));
  return make("section", {}, make("h3", {}, title), body);
}

function sentenceDetails(sentences, written) {
  const characters = Array.from(written.map(([text]) => text).join(""));
  const head = ["value", contradiction.values.join(", "), "sentence"].map((name) => make("th", {}, name));
  const body = make("tbody");
  for (const [value, start, end, ...shares] of sentences) {
    const name = contradiction.values[value];
    body.append(make("tr", {}, make("td", { class: name }, name),
      make("td", { class: "shares" }, shares.map((share) => figure(share, 2)).join(" ")),
      make("td", { dir: "auto" }, characters.slice(start, end).join(""))));
  }
  const summary = `All sentences (${sentences.length}), by what the reference says of them`;
  return make("details", {}, make("summary", {}, summary),
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), body));
}

function elementTable(elements) {
  const head = ["grade", "text", "kind", "question"].map((name, column) =>
    make("th", column ? {} : { class: "n" }, name));
  const body = make("tbody");
  for (const element of elements) {
    const [, side, kind, grade] = element;
    body.append(make("tr", {},
      make("td", { class: `n ${level(grade)}` }, figure(grade, 1)),
      make("td", {}, SIDES[side]), make("td", {}, KINDS[kind]), make("td", {}, question(element))));
  }
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), body);
}

function elementDetails(elements) {
  const details = make("details", {},
    make("summary", {}, `All ${elements.length} elements, worst first`));
  details.addEventListener("toggle", () => details.append(elementTable(elements)), { once: true });
  return details;
}

// A pair is [written, reference, elements, failure, index of its image, sentences, and, if it is not
// the text that was scored, the text as it was written].

function pairParts([written, reference, elements, failure, , sentences, uncleaned]) {
  const parts = [];
  if (failure !== null) parts.push(make("p", { class: "failure" }, `No score: ${failure}`));
  parts.push(make("div", { class: "texts" },
    text("Written", written, elements, sentences), text("Reference", reference, elements)));
  if (uncleaned !== undefined) {
    parts.push(make("details", {}, make("summary", {}, "As it was written, with thoughts and markup"),
      make("p", { class: "text", dir: "auto" }, uncleaned)));
  }
  if (sentences.length) parts.push(sentenceDetails(sentences, written));
  if (elements.length) parts.push(elementDetails(elements));
  return parts;
}

function figures(member) {
  return make("p", { class: "scores" }, ...figureValues[member[NUMBER]].map((value, place) =>
    make("span", {}, make("bdi", {}, figureNames[place]), " ", make("b", {}, value))));
}

function picture(place) {
  const image = make("img", { src: unpack(`picture-${place}`), alt: "The described image" });
  return make("figure", {}, image);
}

// One pair, or several models' texts with one id, side by side.
function sheet(place) {
  const [, members] = rows[place];
  const pairs = members.map((member) => member && unpack(`pair-${member[NUMBER]}`));
  const present = pairs.filter(Boolean);
  const box = make("div", { class: "sheet" });
  const seen = present.map((pair) => pair[4]).find((place) => place !== null);
  if (seen !== undefined) box.append(picture(seen));
  if (present.some(([, , elements, , , sentences]) => elements.length || sentences.length)) box.append(byId("key").content.cloneNode(true));
  if (models.length === 1) {
    box.append(figures(members[0]), ...pairParts(present[0]));
  } else {
    const sides = pairs.map((pair, place) => pair && make("section", { class: "side" },
      make("h2", {}, models[place]), figures(members[place]), ...pairParts(pair)));
    box.append(make("div", { class: "sides" }, ...sides.filter(Boolean)));
  }
  box.append(tools(place));
  return box;
}

// ---- taking a pair along

const plain = (runs) => runs.map(([text]) => text).join("");

function record(place) {
  const [name, members, step] = rows[place];
  const pairs = members.flatMap((member, at) => {
    if (!member) return [];
    const [written, reference, elements, failure, , sentences] = unpack(`pair-${member[NUMBER]}`);
    const characters = Array.from(plain(written));
    return [{
      ...(models.length > 1 || models[0] !== "(no model)" ? { model: models[at] } : {}),
      figures: Object.fromEntries(figureValues[member[NUMBER]].map((value, i) =>
        [figureNames[i], value === "none" ? null : Number.isNaN(Number(value)) ? value : Number(value)])),
      written: plain(written), reference: plain(reference), failure,
      sentences: sentences.map(([value, start, end]) => ({
        value: contradiction.values[value], text: characters.slice(start, end).join("") })),
      elements: elements.map((element) => ({ grade: element[3], side: SIDES[element[1]],
        kind: KINDS[element[2]], text: element[4], question: question(element) })),
    }];
  });
  return { id: name, ...(step === null ? {} : { step }), pairs };
}

function describe({ id, step, pairs }) {
  const lines = [step === undefined ? id : `${id}, step ${step}`];
  for (const { model, figures, written, reference, failure, sentences, elements } of pairs) {
    const named = ([name, value]) => `${name} ${Number.isInteger(value) ? value : value?.toFixed?.(3) ?? value ?? "none"}`;
    lines.push("", [model, ...Object.entries(figures).map(named)].filter(Boolean).join(", "));
    if (failure !== null) lines.push(`No score: ${failure}`);
    lines.push(`Written: ${written}`, `Reference: ${reference}`);
    for (const { value, text } of sentences) if (value === contradiction.values[0]) lines.push(`C  ${text}`);
    for (const { grade, side, text, question: asked } of elements) {
      if (grade === null || grade < 4) lines.push(`${figure(grade, 1)}  ${side}: ${text}. ${asked}`);
    }
  }
  return lines.join("\n");
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // not allowed here, as on http: pages
    const box = make("textarea", {}, text);
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  said.textContent = "copied";
}

function download(place) {
  const data = JSON.stringify(record(place), null, 2);
  const address = URL.createObjectURL(new Blob([data], { type: "application/json" }));
  make("a", { href: address, download: `${keyOf(place).replace(/[^\w.-]+/g, "_")}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function tools(place) {
  const said = make("span", { role: "status" });
  const button = (name, act) => {
    const made = make("button", {}, name);
    made.addEventListener("click", act);
    return made;
  };
  const link = () => `${location.href.split("#")[0]}#${new URLSearchParams({ pair: keyOf(place) })}`;
  return make("p", { class: "tools" },
    button("Copy link", () => copy(link(), said)),
    button("Copy text", () => copy(describe(record(place)), said)),
    button("Download JSON", () => download(place)), said);
}
