// The page at work: filters, choice of a row, keys and colours.

const texts = new Texts();
const filters = { query: "", statuses: new Set(STATUSES), tool: "", reason: "", reasoning: "", order: "index" };
const ORDERS = {
  index: (one, other) => one.index - other.index,
  slow: (one, other) => other.seconds - one.seconds,
  tokens: (one, other) => other.tokens - one.tokens,
  calls: (one, other) => other.calls - one.calls,
  failures: (one, other) => other.failures - one.failures,
};
const REASONING = {
  with: (row) => row.thinking > 0,
  every: (row) => row.steps > 0 && row.thinking === row.steps,
  some: (row) => row.thinking > 0 && row.thinking < row.steps,
  without: (row) => row.steps > 0 && !row.thinking,
  unanswered: (row) => !row.steps,
};
let allRows = [];
let shownRows = [];
let summary = null;
let list = null;
let searchNumber = 0;
let lastSearch = { query: "", finds: null };
let openRow = null;

const isNarrow = () => matchMedia("(max-width: 900px)").matches;
const pending = () => Math.max(0, summary.total - allRows.length);
const isFiltered = () => Boolean(filters.query || filters.tool || filters.reason || filters.reasoning || filters.statuses.size < STATUSES.length);

function passes(row) {
  return filters.statuses.has(row.status)
    && (!filters.tool || row.tools.some((tool) => tool[0] === filters.tool))
    && (!filters.reason || (row.reason || "unknown") === filters.reason)
    && (!filters.reasoning || REASONING[filters.reasoning](row));
}

function setView(view) {
  document.body.dataset.view = view;
  const reading = Boolean(openRow) && view !== "overview";
  byId("detail").hidden = !reading;
  byId("overview").hidden = reading;
  byId("to-overview").setAttribute("aria-pressed", String(view === "overview"));
  byId("to-rows").setAttribute("aria-pressed", String(view === "rows"));
  if (!byId("overview").hidden) drawOverview();
}

function drawOverview() {
  if (!summary || byId("overview").hidden) return;
  const left = isFiltered() ? 0 : pending();
  byId("scope").textContent = isFiltered() ? `${plural(shownRows.length, "row")} of ${whole.format(allRows.length)}, as filtered` : "All rows";
  showFigures(shownRows, left, isFiltered());
  showPlots(shownRows, left, filters, (change) => { Object.assign(filters, change); applyFilters(); });
}

function show(rows, state) {
  shownRows = rows;
  list.show(rows, openRow ?? list.row);
  byId("count").textContent = state || (isFiltered() ? `${whole.format(rows.length)} of ${plural(allRows.length, "row")}` : plural(allRows.length, "row"));
  byId("clear").hidden = !isFiltered();
}

async function applyFilters() {
  const number = ++searchNumber;
  showControls();
  const rows = allRows.filter(passes).sort((one, other) => ORDERS[filters.order](one, other) || one.index - other.index);
  const terms = searchTerms(filters.query);
  byId("list").removeAttribute("aria-busy");
  if (!terms.length) {
    show(rows);
    drawOverview();
    return;
  }
  // Words that were only typed on can be looked for in what was found before.
  const narrower = lastSearch.finds && !filters.query.includes('"') && filters.query.startsWith(lastSearch.query);
  const within = narrower ? lastSearch.finds : null;
  const finds = new Set();
  let drawn = 0;
  byId("list").setAttribute("aria-busy", "true");
  await search(texts, within ? allRows.filter((row) => within.has(row)) : allRows, terms, () => number === searchNumber, (some, share) => {
    for (const row of some) finds.add(row);
    if (share < 1 && performance.now() - drawn < 120) return;
    drawn = performance.now();
    show(rows.filter((row) => finds.has(row)), share < 1 ? `${whole.format(finds.size)} found, ${Math.floor(100 * share)} % searched` : "");
  });
  if (number !== searchNumber) return;
  lastSearch = { query: filters.query, finds };
  byId("list").removeAttribute("aria-busy");
  drawOverview();
}

function showControls() {
  for (const name of ["tool", "reason", "reasoning", "order"]) byId(name).value = filters[name];
  if (byId("query").value !== filters.query) byId("query").value = filters.query;
  for (const button of byId("statuses").children) button.setAttribute("aria-pressed", String(filters.statuses.has(button.dataset.status)));
}

function fillControls() {
  byId("statuses").replaceChildren(...STATUSES.map((status) => make("button", {
    type: "button", class: `status ${status}`, "data-status": status,
    onclick: () => { filters.statuses.has(status) ? filters.statuses.delete(status) : filters.statuses.add(status); applyFilters(); },
  }, make("i", { class: "dot", "aria-hidden": "true" }), `${status} ${whole.format(sum(allRows, (row) => row.status === status))}`)));
  const options = (id, any, entries) => byId(id).replaceChildren(make("option", { value: "" }, any),
    ...entries.map(([value, count]) => make("option", { value }, `${visible(value)} (${whole.format(count)})`)));
  options("tool", "Any tool", counted(allRows, (row) => row.tools.map((tool) => tool[0])));
  options("reason", "Any ending", counted(allRows, (row) => [row.reason || "unknown"]));
}

async function open(row, read) {
  openRow = row;
  const said = await texts.of(row);
  if (openRow !== row) return;
  const wasReading = byId("detail").contains(document.activeElement);
  showDetail(row, said, searchTerms(filters.query), () => leave());
  setView(read || !isNarrow() ? "row" : document.body.dataset.view);
  keepInAddress(`#row=${row.index}`);
  if (wasReading || (read && isNarrow())) byId("detail").querySelector("h2").focus();
}

function choose(number, read = false) {
  if (!list.rows.length) return;
  list.select(Math.max(0, Math.min(list.rows.length - 1, number)));
  if (read || !isNarrow()) open(list.row, read);
  else setView("rows");
}

function leave() {
  const wasReading = byId("main").contains(document.activeElement) && openRow;
  if (isNarrow() || !wasReading) openRow = null;
  byId("list").focus({ preventScroll: true });
  if (openRow) return;
  setView(isNarrow() && document.body.dataset.view === "row" ? "rows" : "overview");
  keepInAddress("#");
}

function keepInAddress(fragment) {
  try {
    history.replaceState(null, "", fragment);
  } catch {
    // Some viewers give a page no address to keep things in.
  }
}

function nextError() {
  const errors = [...byId("detail").querySelectorAll(".failed, .trouble")];
  const main = byId("main").getBoundingClientRect().top;
  const next = errors.find((node) => node.getBoundingClientRect().top - main > 24) ?? errors[0];
  next?.scrollIntoView({ block: "start" });
}

const KEYS = {
  j: () => choose(list.chosen + 1), ArrowDown: () => choose(list.chosen + 1),
  k: () => choose(list.chosen - 1), ArrowUp: () => choose(list.chosen - 1),
  g: () => choose(0), Home: () => choose(0),
  G: () => choose(list.rows.length - 1), End: () => choose(list.rows.length - 1),
  "/": () => { if (isNarrow()) setView("rows"); byId("query").focus(); byId("query").select(); },
  "?": () => byId("help").showModal(),
  Escape: () => leave(),
  e: () => nextError(),
  r: () => {
    const folds = [...byId("detail").querySelectorAll("details.reasoning")];
    const unfold = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = unfold;
  },
  Enter: () => {
    if (!list.row) return;
    open(list.row, true).then(() => byId("detail").querySelector("h2").focus());
  },
};
const SCROLLING = new Set(["ArrowDown", "ArrowUp", "Home", "End"]);

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || !list) return;
  const { target, key } = event;
  if (target.matches("input")) {
    if (key === "Escape") byId("list").focus();
    else if (key === "Enter" || key === "ArrowDown") { byId("list").focus(); choose(Math.max(0, list.chosen)); }
    else return;
    event.preventDefault();
    return;
  }
  if (target.matches("select")) return;
  if (key === "Enter" && target !== byId("list") && target !== document.body) return;
  if (SCROLLING.has(key) && byId("main").contains(target)) return;
  const act = KEYS[key];
  if (!act) return;
  event.preventDefault();
  act();
}

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme[0].toUpperCase() + theme.slice(1);
  byId("theme").setAttribute("aria-label", `Colours: ${theme}`);
  try {
    localStorage.setItem("hermes-view-theme", theme);
  } catch {
    // Kept for this visit only.
  }
}

function storedTheme() {
  try {
    return localStorage.getItem("hermes-view-theme");
  } catch {
    return null;
  }
}

function listen() {
  document.addEventListener("keydown", onKey);
  let typing = 0;
  byId("query").addEventListener("input", (event) => {
    filters.query = event.target.value;
    clearTimeout(typing);
    typing = setTimeout(applyFilters, 140);
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["tool", "reason", "reasoning", "order"]) byId(name).addEventListener("change", (event) => { filters[name] = event.target.value; applyFilters(); });
  byId("clear").addEventListener("click", () => {
    Object.assign(filters, { query: "", tool: "", reason: "", reasoning: "", statuses: new Set(STATUSES) });
    applyFilters();
    byId("query").focus();
  });
  byId("to-overview").addEventListener("click", () => { openRow = null; setView("overview"); keepInAddress("#"); });
  byId("to-rows").addEventListener("click", () => setView("rows"));
  byId("to-help").addEventListener("click", () => byId("help").showModal());
  byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]));
  let width = innerWidth;
  let resizing = 0;
  addEventListener("resize", () => {
    if (width === innerWidth) return;
    width = innerWidth;
    clearTimeout(resizing);
    resizing = setTimeout(() => setView(document.body.dataset.view), 100);
  });
}

function about() {
  const parts = [
    summary.dataset_file ? `from ${visible(summary.dataset_file)}` : "",
    `as of ${summary.written_at.replace("T", " ").replace("+00:00", " UTC")}`,
    summary.damaged ? `${plural(summary.damaged, "damaged line")} left out` : "",
  ];
  return parts.filter(Boolean).join(" · ");
}

async function begin() {
  setTheme(THEMES.includes(storedTheme()) ? storedTheme() : "auto");
  byId("run").textContent = document.title.split(":")[0];
  if (!("DecompressionStream" in window && Map.groupBy)) throw new Error("it is too old a browser; one of 2024 or later is needed");
  [summary] = await Promise.all(blocks("summary").map(opened));
  allRows = await readLines();
  byId("about").textContent = about();
  list = new RowList(choose);
  fillControls();
  listen();
  await applyFilters();
  setView("overview");
  const wanted = /^#row=(\d+)$/.exec(location.hash);
  const place = wanted ? shownRows.findIndex((row) => row.index === Number(wanted[1])) : -1;
  if (place >= 0) choose(place, true);
  document.documentElement.dataset.ready = "yes";
}

begin().catch((error) => {
  byId("count").textContent = "The page can not be shown.";
  byId("overview").prepend(make("p", { class: "trouble error", role: "alert" }, `The page can not be shown: ${error.message}`));
});
