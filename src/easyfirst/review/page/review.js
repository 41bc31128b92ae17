// What the person does: choose, decide, take back. Every answer of the server is the truth shown.

import { byId, count, drawBeside, drawDetail, drawGroups, drawHeads, drawProgress, drawRow,
  drawRows, drawStates, rowsText } from "./view.js";

const PAGE = 50;
const KINDS = { w: "wrong", r: "right", f: "fix" };
const NARROW = matchMedia("(max-width: 56rem)"); // there the chosen row stands above the list
const WORDS = { wrong: "wrong", right: "right", fix: "fixed", open: "undecided" };

const view = { state: "open", group: "", search: "", sort: "worst", descending: false };
let rows = [], start = 0, total = 0, open = 0, current = 0, columns = [], progress = null;
let asked = 0, busy = Promise.resolve();

class Refused extends Error {}

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" } };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    lose("The review has ended, or its server cannot be reached. What you decided is saved. " +
      "Start it again with: easyfirst review");
    throw new Refused("ended");
  }
  const found = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  if (!answer.ok) {
    say(`Not saved: ${found.error}`, true);
    throw new Refused(found.error);
  }
  return found;
}

// One thing after the other, so that fast typing decides the rows that it was meant for.
function next(action) {
  busy = busy.then(action).catch((error) => {
    if (!(error instanceof Refused)) throw error;
  });
  return busy;
}

let quiet = 0;
function say(text, alarming = false) {
  const said = byId("said");
  clearTimeout(quiet);
  if (!alarming) quiet = setTimeout(() => { said.textContent = ""; }, 4000);
  said.textContent = text;
  said.classList.toggle("alarming", alarming);
}

function lose(text) {
  byId("lost").textContent = text;
  byId("lost").hidden = false;
  byId("work").inert = true;
  byId("end").disabled = true;
}

const query = () => ({ ...view, descending: view.descending ? "1" : "" });

async function load(at = 0, chosen = 0) {
  const parameters = new URLSearchParams({ ...query(), start: at, count: PAGE });
  const found = await ask(`api/rows?${parameters}`);
  if (!found.rows.length && found.total && at) return load(Math.max(0, found.total - PAGE), chosen);
  ({ rows, start, total, open } = found);
  current = Math.min(chosen < 0 ? rows.length - 1 : chosen, Math.max(rows.length - 1, 0));
  draw();
}

function draw() {
  columns = drawHeads(view, progress.has_fixes);
  drawRows(rows, columns);
  drawCounts();
  const last = start + rows.length;
  byId("page").textContent = rows.length ? `${count(start + 1)} to ${count(last)} of ${count(Math.max(total, last))}` : "";
  byId("previous").disabled = start === 0;
  byId("next").disabled = last >= total;
  byId("empty").hidden = rows.length > 0;
  byId("empty").textContent = progress.counts.open || view.state !== "open"
    ? "No row here." : "Every row is decided. End the review, or look through your decisions under All.";
  byId("table").hidden = !rows.length;
  byId("detail").parentElement.hidden = !rows.length;
  if (rows.length) choose(current, false);
}

function drawCounts() {
  drawStates(progress.counts, view.state);
  drawGroups(progress.groups, progress.counts, view.group);
  drawProgress(progress.counts);
  drawBulk();
}

function bulkState() {
  return view.state === "all" ? "open" : view.state;
}

function drawBulk() {
  const number = view.state === "all" ? open : remaining();
  byId("bulk").hidden = number < 2;
  byId("bulk-text").textContent = `${rowsText(number)} ${view.state === "all" ? "undecided " : ""}in this view:`;
  document.querySelector('[data-bulk="fix"]').hidden = !progress.has_fixes;
}

// How many rows the view holds now: those decided since the page was loaded have left it.
const matching = () => rows.filter((row) => view.state === "all" || row.state === view.state).length;
const remaining = () => total - rows.length + matching();

function choose(index, scroll = true) {
  current = index;
  for (const line of byId("rows").children) {
    line.setAttribute("aria-selected", String(Number(line.dataset.index) === index));
  }
  const row = rows[index];
  drawDetail(row);
  if (scroll && !NARROW.matches) byId("rows").children[index].scrollIntoView({ block: "nearest" });
  const mine = ++asked;
  setTimeout(async () => {
    if (mine !== asked) return;
    const found = await ask(`api/row?place=${row.place}`).catch(() => null);
    if (found && mine === asked) drawBeside(found);
  }, 60);
}

async function move(step) {
  const index = current + step;
  if (index >= 0 && index < rows.length) return choose(index);
  if (index < 0) return start ? load(Math.max(0, start - PAGE), -1) : undefined;
  const kept = matching();
  if (start + kept < remaining()) return load(start + kept);
  choose(current);
  say(`${byId("said").textContent} This is the last row.`.trim());
}

function take(found) {
  progress = { ...progress, counts: found.counts, groups: found.groups };
}

async function decide(kind) {
  const row = rows[current];
  if (!row || (kind === "fix" && !row.fixed)) return say("This row has no likely fix.");
  take(await ask("api/decide", { place: row.place, decision: kind }));
  if (row.state === "open") open -= 1;
  row.state = kind;
  say(`Saved: row ${row.row} is ${WORDS[kind]}.`);
  drawRow(row, current, columns);
  drawCounts();
  if (!remaining()) return load(0);
  await move(1);
}

async function decideAll(kind) {
  const state = bulkState();
  const expected = view.state === "all" ? open : remaining();
  if (expected < 1 || !(await agreed(kind, expected))) return;
  const found = await ask("api/decide", { ...query(), state, decision: kind, expected });
  take(found);
  say(`Saved: ${rowsText(found.decided)} ${found.decided === 1 ? "is" : "are"} ${WORDS[kind]}. U takes that back.`);
  await load(0);
}

function agreed(kind, number) {
  const what = kind === "fix" ? "Use the likely fix of every row that has one, of" : `Mark as ${WORDS[kind]}`;
  byId("question").textContent = `${what} ${number === 1 ? "this row" : `all ${rowsText(number)} of this view`}?`;
  const dialog = byId("confirm");
  dialog.returnValue = "no";
  dialog.showModal();
  byId("yes").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function undo() {
  const found = await ask("api/undo", {});
  take(found);
  if (!found.undone) return say("Nothing to take back.");
  say(`Taken back: ${rowsText(found.undone)}.`);
  const index = rows.findIndex((row) => row.place === found.place);
  await load(start, index < 0 ? 0 : index);
  const again = rows.findIndex((row) => row.place === found.place);
  if (again >= 0) choose(again);
}

async function end() {
  const { counts } = await ask("api/end", {});
  lose(`The review has ended. ${count(counts.all - counts.open)} of ${rowsText(counts.all)} are decided and saved in ${progress.details.decisions}. You can close this page.`);
}

function sortBy(column) {
  view.descending = view.sort === column ? !view.descending : false;
  view.sort = column;
  return load();
}

function onClick(event) {
  const target = event.target.closest("button, tr[data-index]");
  if (!target) return;
  const { decide: kind, bulk, state, group, sort, index } = target.dataset;
  if (kind) next(() => decide(kind));
  else if (bulk) next(() => decideAll(bulk));
  else if (state && target.tagName === "BUTTON") next(() => (view.state = state, load()));
  else if (group !== undefined) next(() => (view.group = group, load()));
  else if (sort) next(() => sortBy(sort));
  else if (index !== undefined) next(() => choose(Number(index)));
  else if (target.id === "undo") next(undo);
  else if (target.id === "end") next(end);
  else if (target.id === "previous") next(() => load(Math.max(0, start - PAGE)));
  else if (target.id === "next") next(() => load(start + matching()));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("confirm").open) return;
  if (event.target instanceof HTMLInputElement) {
    if (event.key === "Escape" || event.key === "Enter") event.target.blur();
    return;
  }
  const key = event.key.toLowerCase();
  const act = (action) => { event.preventDefault(); next(action); };
  if (key in KINDS && event.shiftKey) act(() => decideAll(KINDS[key]));
  else if (key in KINDS && !event.repeat) act(() => decide(KINDS[key]));
  else if (key === "u" && !event.repeat) act(undo);
  else if (key === "arrowdown" || key === "j") act(() => move(1));
  else if (key === "arrowup" || key === "k") act(() => move(-1));
  else if (key === "/") { event.preventDefault(); byId("search").focus(); }
}

let typing = 0;
function onSearch() {
  clearTimeout(typing);
  typing = setTimeout(() => next(() => (view.search = byId("search").value, load())), 200);
}

document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
byId("search").addEventListener("input", onSearch);
next(async () => {
  progress = await ask("api/state");
  document.title = `${progress.details.file}: review`;
  byId("title").textContent = `${progress.details.target} in ${progress.details.file}`;
  if (!progress.counts.open) view.state = "all";
  await load();
});
