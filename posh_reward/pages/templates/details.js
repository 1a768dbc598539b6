// ---- details: a row is [side, kind, text, stated, unsupported, contradicted], each count by group:
// a model of a report, or a stretch of a run's steps

const details = unpack("details");
const MOST = 10;
const total = (counts) => counts.reduce((sum, count) => sum + count, 0);
const trending = Boolean(byId("periods"));
const quarter = Math.max(1, Math.round(details.groups.length / 4));

// Times per 100 texts of some groups.
function rate(counts, from, to) {
  return 100 * total(counts.slice(from, to)) / Math.max(total(details.texts.slice(from, to)), 1);
}

const early = (counts) => rate(counts, 0, quarter);
const late = (counts) => rate(counts, -quarter);
const ORDERS = {
  ...(trending ? {
    "most often at the end": (row) => late(row[4]),
    "rising most": (row) => late(row[4]) - early(row[4]),
  } : {}),
  "most often": (row) => total(row[4]),
  ...(details.rows.some((row) => total(row[5])) ? { "contradicted most": (row) => total(row[5]) } : {}),
};

function sparkline(counts) {
  const rates = counts.map((count, group) => count / Math.max(details.texts[group], 1));
  const [most, width, height] = [Math.max(...rates) || 1, 96, 20];
  const points = rates.map((value, at) =>
    `${(width * at / Math.max(rates.length - 1, 1)).toFixed(1)},${(height - 1 - (height - 2) * value / most).toFixed(1)}`);
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("class", "spark");
  picture.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(space, "polyline");
  line.setAttribute("points", points.join(" "));
  picture.append(line);
  return picture;
}

function detailCells([, , , stated, unsupported, contradicted], reader) {
  const cell = (text) => make("td", { class: "n" }, text);
  const share = (some, all) => cell(`${some.toLocaleString("en")} of ${all.toLocaleString("en")}`);
  const cells = [];
  if (trending) {
    cells.push(make("td", {}, sparkline(unsupported)));
    cells.push(cell(`${early(unsupported).toFixed(1)} → ${late(unsupported).toFixed(1)}`));
    cells.push(share(total(unsupported), total(stated)));
  } else {
    cells.push(...stated.map((count, group) => share(unsupported[group], count)));
  }
  if (reader) cells.push(cell(total(contradicted).toLocaleString("en")));
  return cells;
}

function detailHeads(side, reader) {
  const times = side ? "left out, of" : "unsupported, of";
  const heads = trending ? ["trend", "per 100 texts", times]
    : details.groups.length > 1 ? details.groups : [times];
  return [...heads, ...(reader ? ["contradicted"] : [])].map((name) =>
    make("th", name === "trend" ? {} : { class: "n" }, name));
}

// A detail's name shows the pairs that have it.
function show([side, kind, text]) {
  setValue(byId("find"), text);
  if (byId("side")) {
    setValue(byId("side"), String(side));
    setValue(byId("kind"), String(kind));
  }
  refresh();
  byId("find").closest("section").scrollIntoView({ block: "start" });
}

const expanded = new Set();

function detailTable(side) {
  const kind = byId("detail-kind").value;
  const order = ORDERS[byId("detail-order").value];
  const found = details.rows
    .filter((row) => row[0] === side && (!kind || row[1] === Number(kind)))
    .sort((one, other) => order(other) - order(one));
  const reader = !side && found.some((row) => total(row[5]));
  const body = make("tbody");
  for (const row of found.slice(0, expanded.has(side) ? found.length : MOST)) {
    const name = make("button", { title: "show pairs with it" }, row[2]);
    name.addEventListener("click", () => show(row));
    body.append(make("tr", {}, make("td", { class: "detail" }, name, " ",
      make("small", {}, KINDS[row[1]])), ...detailCells(row, reader)));
  }
  const title = side ? "In references: left out, of all mentions"
    : "Written: not supported by the reference, of all mentions";
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
