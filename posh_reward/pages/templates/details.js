// ---- details: a row is [side, kind, text, stated, unsupported, contradicted], each count by group:
// a model of a report, or a period of a run's steps

const details = unpack("details");
const MOST = 10;
const total = (counts) => counts.reduce((sum, count) => sum + count, 0);
const trending = Boolean(byId("trending"));

// Of a run, its first and last periods are compared.
const ENDS = [[0, details.compared], [-details.compared]];
const counted = (counts) => ENDS.map((end) => total(counts.slice(...end)));
const texts = counted(details.texts);
const rates = (counts) => counted(counts).map((count, end) => 100 * count / Math.max(texts[end], 1));
const rise = ([first, last]) => last - first;
const ORDERS = {
  ...(trending ? {
    "unsupported at the end": (row) => rates(row[4])[1],
    "ever more unsupported": (row) => rise(rates(row[4])),
    "said ever more": (row) => rise(rates(row[3])),
    "said ever less": (row) => -rise(rates(row[3])),
  } : {}),
  "unsupported most often": (row) => total(row[4]),
  ...(details.rows.some((row) => total(row[5])) ? { "contradicted most often": (row) => total(row[5]) } : {}),
};

// How often a detail is stated, grey, and unsupported, blue, per text of each period.
function sparkline(stated, unsupported) {
  const [most, width, height] = [Math.max(...stated.map((count, at) => count / Math.max(details.texts[at], 1))) || 1, 96, 20];
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("class", "spark");
  picture.setAttribute("aria-hidden", "true");
  for (const [name, counts] of [["raw", stated], ["", unsupported]]) {
    const points = counts.map((count, at) => {
      const value = count / Math.max(details.texts[at], 1) / most;
      return `${(width * at / Math.max(counts.length - 1, 1)).toFixed(1)},${(height - 1 - (height - 2) * value).toFixed(1)}`;
    });
    const line = document.createElementNS(space, "polyline");
    line.setAttribute("points", points.join(" "));
    line.setAttribute("class", name);
    picture.append(line);
  }
  return picture;
}

function detailCells([side, , , stated, unsupported, contradicted], reader) {
  const cell = (text, wide) => make("td", { class: wide ? "n wide" : "n" }, text);
  const share = (some, all) => `${some.toLocaleString("en")} of ${all.toLocaleString("en")}`;
  const percent = (some, all) => all ? `${Math.round(100 * some / all)} %` : "none";
  const cells = [];
  if (trending) {
    const [wrong, all] = [counted(unsupported), counted(stated)];
    cells.push(make("td", { class: "wide" }, sparkline(stated, unsupported)));
    if (!side) cells.push(cell(rates(stated).map((rate) => rate.toFixed(1)).join(" → ")));
    cells.push(cell(wrong.map((count, end) => percent(count, all[end])).join(" → ")));
    if (!side) cells.push(cell(share(total(unsupported), total(stated)), true));
  } else {
    const denied = (group) => contradicted[group] ? `, ${contradicted[group]} contradicted` : "";
    cells.push(...stated.map((count, group) => cell(share(unsupported[group], count) + denied(group))));
  }
  if (reader) cells.push(cell(total(contradicted).toLocaleString("en"), true));
  return cells;
}

function detailHeads(side, reader) {
  const wrong = side ? "left out" : "unsupported";
  const heads = [];
  if (trending) {
    heads.push(["trend", "wide"]);
    if (!side) heads.push(["per 100 texts", "n"]);
    heads.push([wrong, "n"]);
    if (!side) heads.push(["in all", "n wide"]);
  } else {
    const groups = details.groups.length > 1 ? details.groups : [`${wrong}, of`];
    heads.push(...groups.map((name) => [name, "n"]));
  }
  if (reader) heads.push(["contradicted", "n wide"]);
  return heads.map(([name, kind]) => make("th", { class: kind }, make("bdi", {}, name)));
}

// A detail's name shows the pairs in which it is unsupported.
function show([side, kind, text]) {
  for (const control of filters) setValue(control, "");
  chosenDetail = [side, kind, text];
  refresh();
  byId("find").closest("section").scrollIntoView({ block: "start" });
}

const expanded = new Set();

function detailTable(side) {
  const kind = byId("detail-kind").value;
  const order = ORDERS[byId("detail-order").value];
  const found = details.rows
    .filter((row) => row[0] === side && (!kind || row[1] === Number(kind)))
    .filter((row) => trending || total(row[4]))
    .sort((one, other) => order(other) - order(one));
  const reader = trending && !side && found.some((row) => total(row[5]));
  const body = make("tbody");
  for (const row of found.slice(0, expanded.has(side) ? found.length : MOST)) {
    const name = make("button", { title: `show pairs in which it is ${side ? "left out" : "unsupported"}` },
      make("bdi", {}, row[2]));
    name.addEventListener("click", () => show(row));
    body.append(make("tr", {}, make("td", { class: "detail" }, name, " ",
      make("small", {}, KINDS[row[1]])), ...detailCells(row, reader)));
  }
  const title = side ? "In references, left out by the description"
    : "In descriptions, not supported by the reference (grade below 3)";
  const head = make("thead", {}, make("tr", {}, make("th", {}, "detail"), ...detailHeads(side, reader)));
  const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    make("table", {}, make("caption", {}, title), head, body));
  if (found.length > MOST && !expanded.has(side)) {
    const more = make("button", {}, `Show ${found.length - MOST} more`);
    more.addEventListener("click", () => { expanded.add(side); drawDetails(); });
    box.append(make("p", { class: "more" }, more));
  }
  return box;
}

function drawDetails() {
  byId("detail-tables").replaceChildren(...[0, 1]
    .filter((side) => details.rows.some((row) => row[0] === side)).map(detailTable));
}

if (byId("detail-tables")) {
  byId("detail-order").append(...Object.keys(ORDERS).map((name) => make("option", {}, name)));
  for (const name of ["detail-kind", "detail-order"]) byId(name).addEventListener("input", drawDetails);
  drawDetails();
}
