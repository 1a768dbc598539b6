// Shortcuts, which can be switched off: a letter alone may be part of someone's speech input or
// screen reader (WCAG 2.1.4). They do nothing where text is typed.

const TYPING = "textarea, select, input:not([type='radio'], [type='checkbox'])";
const PRESSING = "button, a, summary";  // Enter presses what has the focus

// Chooses in the question that has the focus, or else in the first open one; then comes the next.
function chooseByNumber(number) {
  const questions = [...document.querySelectorAll("#task fieldset")];
  const isAnswered = (question) => question.querySelector(":checked");
  const question = document.activeElement.closest("fieldset") ?? questions.find((each) => !isAnswered(each));
  const choice = question?.querySelectorAll("input")[number - 1];
  if (!choice) return;
  choice.click();
  say(`${question.querySelector("legend").textContent}: ${packet.choices[number - 1][1]}`);
  const open = questions.slice(questions.indexOf(question) + 1).find((each) => !isAnswered(each));
  (open?.querySelector("input") ?? byId("next")).focus();
}

const goOn = () => (at === -1 ? byId("begin") : byId("next")).click();
const SHORTCUTS = { n: goOn, Enter: goOn, p: () => byId("back").click() };
for (const number of [1, 2, 3, 4, 5]) SHORTCUTS[number] = () => chooseByNumber(number);

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  const act = SHORTCUTS[key.length === 1 ? key.toLowerCase() : key];
  const isOther = event.defaultPrevented || event.repeat || event.isComposing
    || event.altKey || event.ctrlKey || event.metaKey;
  if (!act || isOther || !byId("use-keys").checked || byId("large").open) return;
  if (target.closest(TYPING) || (key === "Enter" && target.closest(PRESSING))) return;
  event.preventDefault();
  act();
});

byId("use-keys").addEventListener("change", ({ target }) => {
  document.body.classList.toggle("no-keys", !target.checked);
});
