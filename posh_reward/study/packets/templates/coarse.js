// Two generations side by side, and three questions about them.

function coarseTask(task, answer, changed) {
  const correct = task.reference ? [reading(packet.words.reference, task.reference)] : [];
  const shown = materials(row(correct.length ? "two" : "one", picture(task), ...correct),
    row("two", ...task.texts.map((text, place) =>
      reading(`${packet.words.generation} #${place + 1}`, text))));
  const questions = packet.questions.map(([axis, title, text]) => {
    const box = make("fieldset", {}, make("legend", {}, title), make("p", {}, text));
    for (const [value, label] of packet.choices) {
      const input = make("input", { type: "radio", name: axis, value });
      input.checked = answer[axis] === value;
      input.addEventListener("change", () => { answer[axis] = value; changed(); });
      box.append(make("label", { class: "choice" }, input, label));
    }
    return box;
  });
  return [shown, row("three", ...questions)];
}

const coarseLeft = (task, answer) =>
  packet.questions.filter(([axis]) => answer[axis] === null).map(([, title]) => title);
