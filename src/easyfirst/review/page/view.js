// Drawing. Texts go into the page as texts, never as markup.

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children);
  return element;
}

export const count = (number) => number.toLocaleString("en");

export const rowsText = (number) => `${count(number)} ${number === 1 ? "row" : "rows"}`;

// A value from the table may be written in any direction without turning what stands beside it.
const value = (text) => make("bdi", {}, text);

const STATES = { open: "Undecided", wrong: "Wrong", right: "Right", fix: "Fixed", all: "All" };

export const COLUMNS = [
  { title: "Row", sort: "row", text: (row) => row.row },
  { title: "Given", sort: "given", number: true, text: (row) => row.given },
  { title: "Predicted", sort: "predicted", number: true, text: (row) => row.predicted },
  { title: "Off by", sort: "residual", number: true, unit: "std. dev.", text: (row) => row.residual },
  { title: "Chance right", sort: "quality", number: true, text: (row) => row.chance.replace("under", "<") },
];
const FIX_COLUMN = { title: "Likely fix", sort: "fix", text: (row) => row.fixed || row.fix, words: (row) => (row.fixed ? row.fix : "") };

export const fixText = (row) => (row.fixed ? `${row.fixed}${row.fix ? ` (${row.fix})` : ""}` : row.fix);

export function drawStates(counts, chosen) {
  const buttons = Object.entries(STATES).map(([state, title]) =>
    make("button", { type: "button", "data-state": state, "aria-pressed": String(state === chosen) },
      `${title} `, make("span", { class: "count" }, count(counts[state]))));
  byId("states").replaceChildren(...buttons);
}

export function drawGroups(groups, counts, chosen) {
  const every = { key: "", title: "All suspicious rows", rows: counts.all, open: counts.open };
  const buttons = [every, ...groups].map((group) =>
    make("button",
      { type: "button", class: group.open ? "group" : "group done", "data-group": group.key,
        "aria-pressed": String(group.key === chosen), title: group.title },
      make("span", { class: "name" }, value(group.title)),
      make("span", { class: "count" }, group.open ? `${count(group.open)} left` : `${count(group.rows)} ✓`)));
  byId("groups").replaceChildren(...buttons);
}

export function drawProgress(counts) {
  const decided = counts.all - counts.open;
  byId("progress").textContent = `${count(decided)} of ${rowsText(counts.all)} decided`;
  byId("bar").max = Math.max(counts.all, 1);
  byId("bar").value = decided;
}

export function drawHeads(view, withFix) {
  const columns = withFix ? [...COLUMNS, FIX_COLUMN] : COLUMNS;
  const heads = columns.map((column) => {
    const sorted = view.sort === column.sort;
    const arrow = sorted ? (view.descending ? " ↓" : " ↑") : "";
    return make("th",
      { scope: "col", class: column.number ? "n" : null, "data-sorted": column.sort,
        "aria-sort": sorted ? (view.descending ? "descending" : "ascending") : null },
      make("button", { type: "button", "data-sort": column.sort }, `${column.title}${arrow}`),
      ...(column.unit ? [make("small", {}, column.unit)] : []));
  });
  byId("heads").replaceChildren(...heads, make("th", { scope: "col" }, "Decision"));
  return columns;
}

function cell(column, row) {
  const text = column.text(row), words = column.words?.(row) ?? "";
  const parts = words ? [" ", make("span", { class: "words" }, value(words))] : [];
  return make("td", { class: column.number ? "n" : null, "data-sorted": column.sort, title: words ? `${text} ${words}` : text },
    value(text), ...parts);
}

const line = (row, index, columns) => make("tr", { "data-index": index, "data-state": row.state },
  ...columns.map((column) => cell(column, row)), make("td", { class: "state" }, badge(row.state)));

export function drawRows(rows, columns) {
  byId("rows").replaceChildren(...rows.map((row, index) => line(row, index, columns)));
}

export function drawRow(row, index, columns) {
  byId("rows").children[index].replaceWith(line(row, index, columns));
}

const badge = (state) => make("span", { class: `badge ${state}` }, state === "open" ? "" : STATES[state]);

export function drawDetail(row) {
  const heading = make("h2", {}, "Row ", value(row.row), " ", badge(row.state));
  const parts = [heading, make("p", { class: "why" }, value(row.why))];
  if (fixText(row)) {
    const chance = row.fix_chance ? `, ${row.fix_chance} likely` : "";
    parts.push(make("p", { class: "likely" }, "Likely fix: ", make("strong", {}, value(fixText(row))), chance));
  }
  byId("detail").replaceChildren(...parts);
  byId("fix").disabled = !row.fixed;
  byId("fix").firstChild.textContent = row.fixed ? `Fix: ${row.fixed} ` : "No likely fix ";
}

export function drawBeside(row) {
  const near = row.nearest;
  const heads = [make("th", { scope: "col" }, ""), make("th", { scope: "col", class: "own" }, "this row"),
    ...near.map((each) => make("th", { scope: "col" }, value(each.row)))];
  const values = (name, own, others, kind) => make("tr", { class: kind },
    make("th", { scope: "row", title: name }, value(name)), make("td", { class: "own", title: own }, value(own)),
    ...others.map((text) => make("td", { title: text }, value(text))));
  const body = [
    values(row.target, row.given, near.map((each) => each.given), "target"),
    values("predicted", row.predicted, near.map((each) => each.predicted), "predicted"),
    ...row.columns.map((column, place) => values(column.name, row.values[place],
      near.map((each) => each.values[place]), column.used ? "used" : "unused")),
  ];
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body));
  const parts = [make("h3", {}, near.length ? "Beside the most similar rows that look right" : "Its values"),
    make("div", { class: "scroll" }, table)];
  const notes = [];
  if (row.columns.some((column) => !column.used)) notes.push("Columns in grey are not used by the model.");
  if (row.more_columns) notes.push(`${count(row.more_columns)} more columns are not shown.`);
  if (notes.length) parts.push(make("p", { class: "note" }, notes.join(" ")));
  byId("beside").replaceChildren(...parts);
}
