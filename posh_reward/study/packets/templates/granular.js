// One generation and its reference, in which words are marked. A mark is [first, last]: places of
// words. Saved marks are character offsets instead: code points, end exclusive.

function granularTask(task, answer, changed) {
  const [generation] = task.texts;
  const texts = { mistakes: [packet.words.generation, generation],
    omissions: [packet.words.reference, task.reference] };
  const sides = Object.keys(packet.sides);
  return [row("one", picture(task)), row(sides.length > 1 ? "two" : "one", ...sides.map((side) =>
    markable(side, ...texts[side], task.words[side], answer, changed)))];
}

const granularLeft = (task, answer) => Object.keys(packet.sides).filter((side) =>
  answer[side] === null).map((side) => packet.sides[side][1]);

const phrase = (name, words) => packet.words[name].replace("{words}", () => words);

function markable(side, title, text, words, answer, changed) {
  const letters = [...text];  // by code point
  const piece = (start, end) => letters.slice(start, end).join("");
  const quote = ([first, last]) => `\u201c${piece(words[first][0], words[last][1])}\u201d`;
  const placed = new Map(words.flatMap(([start, end], place) => [[start, place], [`${end}`, place]]));
  let marks = (answer[side] ?? []).map(([start, end]) => [placed.get(start), placed.get(`${end}`)]);
  let begun = null;
  let pressed = null;
  let current = 0;

  const [task, what, nothing] = packet.sides[side];
  const list = make("div", { class: `text words ${side}`, role: "listbox", dir: "auto",
    "aria-multiselectable": "true", "aria-label": `${title}: ${task}` });
  const options = [];
  const gaps = [];  // before each word
  let at = 0;
  words.forEach(([start, end], place) => {
    const option = make("span", { class: "word", role: "option", "data-place": place },
      piece(start, end));
    options.push(option);
    gaps.push(make("span", {}, piece(at, start)));
    list.append(gaps[place], option);
    at = end;
  });
  list.append(piece(at));
  const none = make("input", { type: "checkbox" });
  none.checked = answer[side] !== null && !marks.length;
  const chosen = make("ul", { class: "marks", "aria-label": what });
  const hint = make("p", { class: "hint" });  // for those who see; others are told by say()
  const cancelling = make("button", { type: "button" }, packet.words.cancel);
  cancelling.addEventListener("click", () => { const place = begun; cancel(); options[place].focus(); });

  function markAt(place) { return marks.find(([first, last]) => first <= place && place <= last); }

  function draw() {
    options.forEach((option, place) => {
      const mark = markAt(place);
      option.setAttribute("aria-selected", String(Boolean(mark)));
      option.className = `word${mark ? " marked" : ""}${place === begun ? " begun" : ""}`;
      option.tabIndex = place === current ? 0 : -1;
      gaps[place].className = mark && mark[0] < place ? "marked" : "";
    });
    chosen.replaceChildren(...marks.map((mark) => {
      const button = make("button", { type: "button", "aria-label": phrase("remove", quote(mark)) },
        quote(mark));
      button.addEventListener("click", () => { remove(mark); options[mark[0]].focus(); });
      return make("li", {}, button);
    }));
    hint.replaceChildren(...(begun === null ? [] : [make("span", { "aria-hidden": "true" },
      beginning()), " ", cancelling]));
    none.disabled = marks.length > 0;
    if (marks.length) none.checked = false;
  }

  function keep() {
    const spans = marks.map(([first, last]) => [words[first][0], words[last][1]]);
    answer[side] = spans.length || none.checked ? spans : null;
    changed();
    draw();
  }

  function remove(mark) {
    marks = marks.filter((other) => other !== mark);
    say(phrase("removed", quote(mark)));
    keep();
  }

  function add(one, other) {
    const mark = [Math.min(one, other), Math.max(one, other)];
    const apart = ([first, last]) => last < mark[0] || mark[1] < first;
    for (const [first, last] of marks.filter((old) => !apart(old))) {
      mark[0] = Math.min(mark[0], first);
      mark[1] = Math.max(mark[1], last);
    }
    marks = [...marks.filter(apart), mark].sort(([a], [b]) => a - b);
    begun = null;
    say(phrase("marked", quote(mark)));
    keep();
  }

  const beginning = () => phrase("mark_begins", quote([begun, begun]));

  function cancel() {
    if (begun === null) return;
    begun = null;
    say(packet.words.cancelled);
    draw();
  }

  function choose(place) {
    current = place;
    if (begun !== null) return add(begun, place);
    const mark = markAt(place);
    if (mark) return remove(mark);
    begun = place;
    say(beginning());
    draw();
  }

  function move(place) {
    current = Math.max(0, Math.min(place, words.length - 1));
    draw();
    options[current]?.focus();
  }

  const placeOf = (target) => {
    const option = target.closest?.(".word");
    return option && list.contains(option) ? Number(option.dataset.place) : null;
  };
  const line = (step) => {  // the word in the line above or below that is nearest
    const middle = (box) => (box.left + box.right) / 2;
    const here = options[current].getBoundingClientRect();
    const boxes = options.map((option) => option.getBoundingClientRect());
    const tops = boxes.map((box) => Math.round(box.top)).filter((top) => (top - here.top) * step > 4);
    if (!tops.length) return current;
    const top = step > 0 ? Math.min(...tops) : Math.max(...tops);
    const away = boxes.map((box) => Math.abs(Math.round(box.top) - top) > 4 ? Infinity
      : Math.abs(middle(box) - middle(here)));
    return away.indexOf(Math.min(...away));
  };
  const keys = {
    ArrowRight: () => move(current + 1), ArrowLeft: () => move(current - 1),
    ArrowDown: () => move(line(1)), ArrowUp: () => move(line(-1)),
    Home: () => move(0), End: () => move(words.length - 1),
    Enter: () => choose(current), " ": () => choose(current),
    Delete: () => { const mark = markAt(current); if (mark) remove(mark); },
  };
  list.addEventListener("keydown", (event) => {
    const act = event.altKey || event.ctrlKey || event.metaKey ? null : keys[event.key];
    if (!act || !words.length) return;
    event.preventDefault();
    act();
    options[current].focus();
  });
  list.addEventListener("pointerdown", ({ target, pointerType }) => {
    pressed = pointerType === "mouse" ? placeOf(target) : null;
  });
  list.addEventListener("pointerup", ({ target }) => {
    const place = placeOf(target);
    if (pressed !== null && place !== null && place !== pressed) { current = place; add(pressed, place); }
    pressed = null;
  });
  list.addEventListener("click", ({ target }) => {
    const place = placeOf(target);
    if (place !== null) { choose(place); options[place].focus(); }
  });
  none.addEventListener("change", keep);
  draw();
  const card = make("section", { class: "card" }, make("h3", {}, title), make("p", {}, task), list,
    hint, chosen, make("label", { class: "choice" }, none, nothing));
  card.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || begun === null) return;
    const place = begun;
    cancel();
    options[place].focus();  // the button may have had it, which is gone
  });
  return card;
}
