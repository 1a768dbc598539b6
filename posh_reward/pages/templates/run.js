// ---- a run: the slider moves a line through the curves

const CURVE_WIDTH = 280;  // units
const runSteps = unpack("steps");
const means = unpack("means");  // figure -> one value per step

function moveCursor() {
  const step = chosenStep();
  const place = step === null ? -1 : runSteps.indexOf(step);
  byId("step-name").textContent = step === null ? "all" : String(step);
  byId("step").setAttribute("aria-valuetext", step === null ? "all steps" : `step ${step}`);
  const [first, last] = [runSteps[0], runSteps.at(-1)];
  for (const curve of document.querySelectorAll(".curve")) {
    const cursor = curve.querySelector(".cursor");
    const x = last > first ? CURVE_WIDTH * (step - first) / (last - first) : 0;
    cursor.setAttribute("visibility", step === null ? "hidden" : "visible");
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x.toFixed(1));
    const caption = curve.querySelector(".at");
    caption.dataset.whole ??= caption.textContent;
    const value = place < 0 ? null : means[curve.dataset.figure][place];
    caption.textContent = step === null ? caption.dataset.whole : figure(value, 3);
  }
}

document.addEventListener("filtered", moveCursor);
