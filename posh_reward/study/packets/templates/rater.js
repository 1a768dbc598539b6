// Texts reach the page through textContent alone.
const byId = (id) => document.getElementById(id);
const packet = JSON.parse(byId("packet").textContent);
const shelf = `posh-reward ${packet.packet} ${packet.rater}`;
const say = (text) => { byId("say").textContent = text; };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);  // strings become text nodes
  return element;
}

const row = (count, ...children) => make("div", { class: `row ${count}` }, ...children);
const reading = (title, text) => make("section", { class: "card" }, make("h3", {}, title),
  make("p", { class: "text", dir: "auto" }, text));

function picture(task) {
  if (task.picture === null) return "";
  const image = make("img", { src: packet.pictures[task.picture], alt: "The picture described" });
  return make("figure", { class: "card" }, image);
}

const FORMS = { coarse: [coarseTask, coarseLeft], granular: [granularTask, granularLeft] };
const [drawTask, leftOpen] = FORMS[packet.form];

// ---- answers, kept in the browser

const axes = packet.form === "coarse" ? packet.questions.map(([axis]) => axis) : ["mistakes", "omissions"];
const blank = (task) => ({ task: task.id, ...Object.fromEntries(axes.map((axis) =>
  [axis, task.suggested?.[axis] ?? null])), seconds: 0, comment: "" });
let answers = packet.tasks.map(blank);
let at = -1;  // place of the task shown; -1: what to do; as many as there are tasks: the end
let since = null;
let unsaved = false;
let keeps = true;

function keep() {
  clock();
  try {
    localStorage.setItem(shelf, written());
  } catch {
    keeps = false;
  }
  byId("unkept").hidden = keeps;
}

function recall() {
  try {
    localStorage.setItem(`${shelf} test`, "1");
    localStorage.removeItem(`${shelf} test`);
    const kept = localStorage.getItem(shelf);
    if (kept) restore(JSON.parse(kept));
  } catch {
    keeps = false;
  }
  byId("unkept").hidden = keeps;
}

// The text of an answer file. What Python makes of it has to come to the same check, to the letter.
function written() {
  const content = { format: packet.format, packet: packet.packet, rater: packet.rater,
    saved: new Date().toISOString(), answers };
  return JSON.stringify({ ...content, check: sha256(packet.token + JSON.stringify(content)) });
}

function restore(file) {
  const { check, ...content } = file;
  if (file.packet !== packet.packet || file.rater !== packet.rater) {
    throw new Error("It belongs to another page.", { cause: "answers" });
  }
  if (check !== sha256(packet.token + JSON.stringify(content))) {
    throw new Error("It was changed, or is damaged.", { cause: "answers" });
  }
  answers = packet.tasks.map((task) => file.answers.find((each) => each.task === task.id) ?? blank(task));
}

// Seconds that a task was in view.
function clock() {
  const now = performance.now();
  if (since !== null && answers[at]) {
    answers[at].seconds = Math.round(answers[at].seconds * 10 + (now - since) / 100) / 10;
  }
  since = answers[at] && !document.hidden ? now : null;
}

function changed() {
  unsaved = true;
  keep();
  progress();
}

// ---- what is shown

const isOpen = (task, place) => leftOpen(task, answers[place]).length > 0;
const places = () => packet.tasks.map((_, place) => place).filter((place) => isOpen(packet.tasks[place], place));

function progress() {
  const done = packet.tasks.length - places().length;
  byId("done").textContent = `${done} of ${packet.tasks.length} tasks done`;
  byId("bar").max = packet.tasks.length;
  byId("bar").value = done;
}

function comment(answer) {
  const box = make("textarea", { rows: 2, "aria-label": "Comment on this task" });
  box.value = answer.comment;
  box.addEventListener("input", () => {
    answer.comment = box.value.replace(/[\ud800-\udfff]/gu, "\ufffd").slice(0, 2000);
    changed();
  });
  const details = make("details", { class: "comment" }, make("summary", {}, "Add a comment"), box);
  details.open = Boolean(answer.comment);
  return details;
}

function show(place) {
  clock();
  at = Math.max(-1, Math.min(place, packet.tasks.length));
  since = answers[at] && !document.hidden ? performance.now() : null;
  const task = packet.tasks[at];
  byId("intro").hidden = at !== -1;
  byId("task").hidden = !task;
  byId("end").hidden = at !== packet.tasks.length;
  document.querySelector("nav").hidden = at === -1;
  document.querySelector(".progress").hidden = false;
  byId("next").disabled = at === packet.tasks.length;
  byId("next").textContent = at === packet.tasks.length - 1 ? "Finish" : "Next";
  byId("task").replaceChildren();
  if (task) {
    const title = `Task ${at + 1} of ${packet.tasks.length}`;
    byId("task").append(make("h2", { id: "heading", tabindex: "-1" }, title),
      ...drawTask(task, answers[at], changed), comment(answers[at]));
  }
  if (at === packet.tasks.length) ending();
  say("");
  progress();
  scrollTo(0, 0);
  byId(task ? "heading" : at === -1 ? "intro-title" : "end-title").focus({ preventScroll: true });
}

function ending() {
  const left = places();
  byId("left").textContent = left.length
    ? `${left.length} of ${packet.tasks.length} tasks are not finished. You can save now, but please finish them before you send the file:`
    : "All tasks are finished. Thank you!";
  byId("open").replaceChildren(...left.map((place) => {
    const parts = leftOpen(packet.tasks[place], answers[place]);
    const some = parts.length < axes.length ? `: ${parts.join(", ")}` : "";
    const button = make("button", { type: "button" }, `Task ${place + 1}${some}`);
    button.addEventListener("click", () => show(place));
    return make("li", {}, button);
  }));
  byId("filename").textContent = filename();
  byId("copy").value = written();
}

const filename = () => `answers-${packet.packet}-${packet.rater}.json`;

function save() {
  keep();
  byId("copy").value = written();
  const url = URL.createObjectURL(new Blob([written()], { type: "application/json" }));
  make("a", { href: url, download: filename() }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
  unsaved = false;
  byId("saved").textContent = "Saved. Look for the file among your downloads.";
}

// ---- controls

byId("begin").addEventListener("click", () => show(places()[0] ?? packet.tasks.length));
byId("back").addEventListener("click", () => show(at - 1));
byId("next").addEventListener("click", () => show(at + 1));
byId("help").addEventListener("click", () => show(-1));
byId("finish").addEventListener("click", () => show(packet.tasks.length));
byId("save").addEventListener("click", save);
byId("load").addEventListener("change", async ({ target }) => {
  try {
    restore(JSON.parse(await target.files[0].text()));
    changed();
    byId("loaded").textContent = "Loaded. Choose Begin to go on.";
  } catch (error) {
    byId("loaded").textContent = `This file cannot be used. ${error.cause === "answers" ? error.message : "It is not a file of answers."}`;
  }
  target.value = "";  // so that the same file can be chosen once more
});
document.addEventListener("visibilitychange", () => { if (answers[at]) keep(); });
window.addEventListener("pagehide", () => { if (answers[at]) keep(); });
window.addEventListener("storage", ({ key }) => {  // the same page in another tab
  if (key !== shelf) return;
  recall();
  since = null;  // the other tab counts
  show(at);
});
window.addEventListener("beforeunload", (event) => { if (unsaved && !keeps) event.preventDefault(); });
recall();
progress();
if (JSON.stringify(answers) !== JSON.stringify(packet.tasks.map(blank))) byId("begin").textContent = "Go on";
document.querySelector(".progress").hidden = false;
