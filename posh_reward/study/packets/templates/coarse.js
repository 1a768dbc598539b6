// Two generations side by side, and questions about them.

function comparedTexts(task) {
  const correct = task.reference ? [reading(packet.words.reference, task.reference)] : [];
  return materials(row(correct.length ? "two" : "one", picture(task), ...correct),
    row("two", ...task.texts.map((text, place) =>
      reading(`${packet.words.generation} ${nth(place)}`, text, nth(place)))));
}

// A labelled button among others of one name, of which one is chosen.
function choice(name, value, label, chosen, key, choose) {
  const input = make("input", { type: "radio", name, value });
  const whole = make("label", { class: "choice" }, input, label,
    make("kbd", { "aria-hidden": "true" }, String(key)));
  input.checked = chosen === value;
  input.addEventListener("change", () => {
    choose(value);
    whole.scrollIntoView({ block: "nearest" });  // not half under the bar of buttons
  });
  return whole;
}

const questionBox = ([, title, text], ...controls) =>
  make("fieldset", {}, make("legend", {}, title), make("p", {}, text), ...controls);

function coarseTask(task, answer, changed) {
  const questions = packet.questions.map((question) => {
    const [axis] = question;
    return questionBox(question, ...packet.choices.map(([value, label], place) =>
      choice(axis, value, label, answer[axis], place + 1, (value) => { answer[axis] = value; changed(); })));
  });
  return [comparedTexts(task), row("three", ...questions)];
}

const coarseLeft = (task, answer) =>
  packet.questions.filter(([axis]) => answer[axis] === null).map(([, title]) => title);
