// Texts reach the page through textContent alone.
const byId = (id) => document.getElementById(id);
const packet = JSON.parse(byId("packet").textContent);
const shelf = `posh-reward ${packet.packet} ${packet.rater}`;
// A text of the page, with its words in braces filled in.
const text = (name, values = {}) => packet.words[name].replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);
const say = (text) => { byId("say").textContent = text; };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);  // strings become text nodes
  return element;
}

const nth = (place) => text("number", { number: place + 1 });
const row = (count, ...children) => make("div", { class: `row ${count}` }, ...children);
const reading = (title, text, brief = title) => make("section", { class: "card", "data-brief": brief },
  make("h3", {}, title), make("p", { class: "text", dir: "auto" }, text));

function picture(task) {
  if (task.image === null) return "";
  const attributes = { src: packet.images[task.image], alt: text("image") };
  const button = make("button", { type: "button", class: "enlarge" }, text("enlarge"));
  const large = byId("large");
  button.addEventListener("click", () => {
    large.querySelector(".scroll").replaceChildren(make("img", attributes));
    large.showModal();  // Escape closes it, and the button has the focus again
  });
  return make("figure", { class: "card" }, make("img", attributes), button);
}

// What is judged. Where the window is small it stays in sight above the questions, and buttons
// scroll it to its parts.
function materials(...rows) {
  const pane = make("div", { class: "materials", tabindex: "0", role: "region",
    "aria-label": text("jump") }, ...rows);
  const parts = [...pane.querySelectorAll(".card")];
  const jump = make("div", { class: "jump", role: "group", "aria-label": text("jump") },
    ...parts.map((part) => {
      const name = part.querySelector("h3")?.textContent ?? text("image");
      const brief = part.dataset.brief ?? text("image_button");
      const button = make("button", { type: "button", "aria-label": name }, brief);
      button.addEventListener("click", () => { pane.scrollTop = part.offsetTop - pane.offsetTop; });
      return button;
    }));
  const sight = make("div", { class: "sight" }, jump, pane);
  const hint = () => sight.classList.toggle("more", pane.scrollTop + pane.clientHeight < pane.scrollHeight - 8);
  const observer = new ResizeObserver(hint);
  for (const part of [pane, ...parts]) observer.observe(part);
  pane.addEventListener("scroll", hint);
  return sight;
}

const FORMS = { coarse: [coarseTask, coarseLeft], granular: [granularTask, granularLeft] };
const [drawTask, leftOpen] = FORMS[packet.form];

// ---- answers, kept in the browser

const axes = packet.form === "granular" ? Object.keys(packet.sides) : packet.questions.map(([axis]) => axis);
const blank = (task) => ({ task: task.id, ...Object.fromEntries(axes.map((axis) =>
  [axis, null])), seconds: 0, comment: "" });
const blankAll = () => [packet.tasks.map(blank), blankAbout()];
let answers = packet.tasks.map(blank);
let at = -1;  // place of the task shown; -1: what to do; as many as there are tasks: the end
let since = null;
let unsaved = false;
let latest = "";  // when an answer was last changed
let keeps = true;

// A busy Chromium lost the first of them in 2 of 232 reloads soon after its start. Both throw where
// the browser keeps nothing.
const stores = () => [localStorage, sessionStorage];

function keep() {
  clock();
  try {
    for (const store of stores()) {
      store.setItem(shelf, written());
      store.setItem(`${shelf} latest`, latest);
    }
  } catch {
    keeps = false;
  }
  byId("unkept").hidden = keeps;
}

function recall() {
  try {
    localStorage.setItem(`${shelf} test`, "1");
    localStorage.removeItem(`${shelf} test`);
    const store = stores().find((each) => each.getItem(shelf));
    if (store) {
      const file = JSON.parse(store.getItem(shelf));
      answers = restored(file);
      about = file.about ?? about;
      latest = store.getItem(`${shelf} latest`) ?? "";
    }
  } catch {
    keeps = false;
  }
  byId("unkept").hidden = keeps;
}

// The text of an answer file. What Python makes of it has to come to the same check, to the letter.
function written() {
  const content = { format: packet.format, packet: packet.packet, rater: packet.rater,
    saved: new Date().toISOString(), answers, ...(asksAbout ? { about } : {}) };
  return JSON.stringify({ ...content, check: sha256(packet.token + JSON.stringify(content)) });
}

function restored(file) {
  const { check, ...content } = file;
  if (file.packet !== packet.packet || file.rater !== packet.rater) {
    throw new Error(text("foreign"), { cause: "answers" });
  }
  if (check !== sha256(packet.token + JSON.stringify(content))) {
    throw new Error(text("changed"), { cause: "answers" });
  }
  return packet.tasks.map((task) => file.answers.find((each) => each.task === task.id) ?? blank(task));
}

// Answers here are newer than the file: they stay, and what only the file has is added.
function joined(loaded) {
  return answers.map((answer, place) => {
    const other = loaded[place];
    const open = Object.fromEntries(axes.filter((axis) => answer[axis] === null).map((axis) => [axis, other[axis]]));
    return { ...answer, ...open, seconds: Math.max(answer.seconds, other.seconds),
      comment: answer.comment || other.comment };
  });
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
  if (byId("saved").textContent) byId("saved").textContent = text("changed_since");
  unsaved = true;
  latest = new Date().toISOString();
  keep();
  progress();
  stale = true;
  if (served) {
    if (!failing) tell("sending");
    send();
  }
}

// ---- a page with a server behind it (`packets serve`): answers are sent as they change

const served = "served" in document.documentElement.dataset;
const address = `${location.pathname}/answers`;
const VERSION = "X-Answers-Version";
let version = null;  // of the answers that the server has; null: not known
let stale = false;   // changed since they were last sent
let sending = false;
let failing = false;

// Answers of a file or of the server, taken for those here unless these are newer; true if so.
function take(file) {
  const loaded = restored(file);
  const older = latest > file.saved;
  answers = older ? joined(loaded) : loaded;
  about = older ? joinedAbout(file.about ?? blankAbout()) : file.about ?? blankAbout();
  if (!older) latest = file.saved;
  return older;
}

// What the server has; what it lacks is to be sent.
async function receive() {
  const reply = await fetch(address, { cache: "no-store" });
  if (!reply.ok) throw new Error(reply.status);
  const before = JSON.stringify([answers[at], about]);
  const file = reply.status === 204 ? null : await reply.json();
  if (file) take(file);
  const stored = file ? [restored(file), file.about ?? blankAbout()] : blankAll();
  stale ||= JSON.stringify([answers, about]) !== JSON.stringify(stored);
  version = reply.headers.get(VERSION);
  if (JSON.stringify([answers[at], about]) === before) return progress();
  since = null;
  show(at);
}

// Shown at each change; said to those who do not see it only where sending begins or ends to fail.
function tell(name) {
  byId("sent").textContent = text(name);
  byId("by-file").hidden = name === "sent";
  if (failing !== (name === "not_sent")) say(text(name));
  failing = name === "not_sent";
}

async function put() {
  stale = false;
  const body = written();
  const keepalive = body.length < 60000;  // so that it arrives though the page is closed
  try {
    const reply = await fetch(address, { method: "PUT", body, keepalive, headers: { [VERSION]: version } });
    if (reply.ok) version = reply.headers.get(VERSION);
    else if (reply.status === 412) version = null;  // others came in between, from another computer
    if (!reply.ok) throw new Error(reply.status);
  } catch (error) {
    stale = true;
    throw error;
  }
}

async function send() {
  if (sending) return;
  sending = true;
  for (let pause = 0.5; stale || version === null;) {
    try {
      if (version === null) await receive();
      if (stale) await put();
      if (!stale && version !== "none") tell("sent");
      pause = 0.5;
    } catch {
      if (stale) tell("not_sent");
      await new Promise((again) => setTimeout(again, 1000 * pause));
      pause = Math.min(2 * pause, 60);
    }
  }
  sending = false;
}

// ---- what is shown

// Tasks for practice come first; they are neither numbered with the others nor counted as done.
const practice = packet.tasks.filter((task) => task.practice).length;
const total = packet.tasks.length - practice;
const isOpen = (task, place) => leftOpen(task, answers[place]).length > 0;
const openPlaces = () => packet.tasks.map((_, place) => place).filter((place) => isOpen(packet.tasks[place], place));
const places = () => openPlaces().filter((place) => place >= practice);
const titleOf = (place) => (place < practice
  ? text("practice", { number: place + 1, total: practice })
  : text("task", { number: place + 1 - practice, total }));

function progress() {
  const done = total - places().length;
  byId("done").textContent = text("done", { done, total });
  byId("bar").max = total;
  byId("bar").value = done;
  const isBlank = JSON.stringify([answers, about]) === JSON.stringify(blankAll());
  if (latest || !isBlank) byId("begin").textContent = text("go_on");  // also after a blank file
}

function comment(answer) {
  const box = make("textarea", { rows: 2, "aria-label": text("comment_box") });
  box.value = answer.comment;
  box.addEventListener("input", () => {
    answer.comment = box.value.replace(/[\ud800-\udfff]/gu, "\ufffd").slice(0, 2000);
    changed();
  });
  const details = make("details", { class: "comment" }, make("summary", {}, text("comment")), box);
  details.open = Boolean(answer.comment);
  return details;
}

// Each screen is a step of the browser's history, so its Back button leads to the one before.
function show(place, remembers = true) {
  drawAbout();
  clock();
  at = asksConsent && !about.agreed ? -1 : Math.max(-1, Math.min(place, packet.tasks.length));
  since = answers[at] && !document.hidden ? performance.now() : null;
  const task = packet.tasks[at];
  byId("intro").hidden = at !== -1;
  byId("task").hidden = !task;
  byId("end").hidden = at !== packet.tasks.length;
  document.querySelector("nav").hidden = at === -1;
  document.querySelector(".progress").hidden = false;
  byId("next").disabled = at === packet.tasks.length;
  byId("next").textContent = at === packet.tasks.length - 1 ? text("finish") : text("next");
  byId("task").replaceChildren();
  if (task) {
    const answer = answers[at];
    const feedback = make("div", { role: "status" });
    const respond = () => {
      if (!task.practice) return;
      feedback.replaceChildren(...explained(task, answer));
      if (feedback.firstChild) feedback.scrollIntoView({ block: "nearest" });
    };
    byId("task").append(make("h2", { id: "heading", tabindex: "-1" }, titleOf(at)),
      make("p", { class: "keys" }, text(packet.form === "granular" ? "keys_mark" : "keys_compare")),
      ...drawTask(task, answer, () => { changed(); respond(); }), feedback, comment(answer));
    respond();
  }
  if (at === packet.tasks.length) ending();
  say("");
  byId("skipped").textContent = "";
  progress();
  scrollTo(0, 0);
  byId(task ? "heading" : at === -1 ? "intro-title" : "end-title").focus({ preventScroll: true });
  if (remembers && history.state?.place !== at) history.pushState({ place: at }, "");
}

// The right answer of a task for practice, once the rater has answered.
function explained(task, answer) {
  if (leftOpen(task, answer).length) return [];
  const { better, why } = task.practice;
  const found = answer.overall === 0 ? 0 : answer.overall > 0 ? 1 : 2;
  const name = found === better ? "practice_right" : "practice_wrong";
  const lines = [text(name, { better: nth(better - 1) }), why, text("practice_over")].filter(Boolean);
  return [make("div", { class: "feedback" }, ...lines.map((line) => make("p", {}, line)))];
}

function ending() {
  const left = places();
  byId("left").textContent = left.length
    ? text(served ? "some_left_served" : "some_left", { left: left.length, total })
    : text("all_done");
  byId("open").replaceChildren(...left.map((place) => {
    const parts = leftOpen(packet.tasks[place], answers[place]);
    const some = parts.length < axes.length ? `: ${parts.join(", ")}` : "";
    const button = make("button", { type: "button" }, titleOf(place) + some);
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
  byId("saved").textContent = text("saved");
}

// ---- controls

byId("begin").addEventListener("click", () => {
  if (mayBegin()) show(openPlaces()[0] ?? packet.tasks.length);
});
byId("back").addEventListener("click", () => show(at - 1));
byId("next").addEventListener("click", () => {
  const skipped = isOpen(packet.tasks[at], at) ? text("left_open", { task: titleOf(at) }) : "";
  show(at + 1);
  if (packet.tasks[at]) byId("skipped").textContent = skipped;  // the end lists what is open
});
byId("help").addEventListener("click", () => show(-1));
byId("finish").addEventListener("click", () => show(packet.tasks.length));
byId("save").addEventListener("click", save);
byId("load").addEventListener("change", async ({ target }) => {
  byId("replace").hidden = true;
  try {
    const file = JSON.parse(await target.files[0].text());
    const loaded = restored(file);
    const before = latest;
    const older = take(file);
    drawAbout();
    changed();
    latest = older ? before : file.saved;
    const when = (time) => new Date(time).toLocaleString(document.documentElement.lang);
    byId("loaded").textContent = older
      ? text("older", { file: when(file.saved), here: when(before) }) : text("loaded");
    byId("replace").hidden = !older;
    byId("replace").onclick = () => {
      answers = loaded;
      about = file.about ?? blankAbout();
      drawAbout();
      changed();
      byId("replace").hidden = true;
      byId("loaded").textContent = text("loaded");
    };
  } catch (error) {
    byId("loaded").textContent = error.cause === "answers" ? error.message : text("not_answers");
  }
  target.value = "";  // so that the same file can be chosen once more
});
byId("close").addEventListener("click", () => byId("large").close());
document.addEventListener("visibilitychange", () => { if (answers[at]) keep(); });
window.addEventListener("pagehide", () => { if (answers[at]) keep(); });
window.addEventListener("storage", ({ key }) => {  // the same page in another tab
  if (key !== shelf) return;
  recall();
  since = null;  // the other tab counts
  show(at);
});
window.addEventListener("popstate", ({ state }) => show(state?.place ?? -1, false));
window.addEventListener("beforeunload", (event) => { if (unsaved && !keeps) event.preventDefault(); });
