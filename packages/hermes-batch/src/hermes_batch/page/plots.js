// The overview: figures and plots of the rows that the filters leave.

const TOOLS_SHOWN = 12;
const REASONS_SHOWN = 8;
const BINS = 24;
const MARK_LINE = 15;

const sum = (rows, value) => rows.reduce((total, row) => total + value(row), 0);
const sorted = (values) => Float64Array.from(values).sort();
const quantile = (ordered, share) => ordered[Math.min(ordered.length - 1, Math.floor(share * ordered.length))] ?? 0;

function counted(rows, keys) {
  const counts = new Map();
  for (const row of rows) for (const key of keys(row)) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

function showFigures(rows, pending, filtered) {
  const good = sum(rows, (row) => row.status === "ok");
  const calls = sum(rows, (row) => row.toolCalls);
  const failures = sum(rows, (row) => row.failures);
  const usage = rows.filter((row) => row.input >= 0);
  const priced = rows.filter((row) => row.cost >= 0);
  const times = sorted(rows.map((row) => row.seconds));
  const thinking = sum(rows, (row) => row.thinking > 0);
  const unknown = (known) => (known.length < rows.length ? `, of ${plural(known.length, "row")}` : "");
  const figures = [
    ["Rows", whole.format(rows.length), filtered ? "as filtered" : pending ? `${whole.format(pending)} pending` : "none pending"],
    ["Good", percent(good, rows.length), `${whole.format(rows.length - good)} not good`],
    ["Tool calls", short.format(calls), calls ? `${percent(calls - failures, calls)} went well` : "none"],
    ["Tokens", usage.length ? short.format(sum(usage, (row) => row.tokens)) : "–",
      usage.length ? `${short.format(sum(usage, (row) => row.input))} in, ${short.format(sum(usage, (row) => row.output))} out${unknown(usage)}` : "no host told"],
    ["Cost", priced.length ? `$${sum(priced, (row) => row.cost).toFixed(2)}` : "–", priced.length ? unknown(priced) ? `of ${plural(priced.length, "row")}` : "of all rows" : "no host told"],
    ["Median time", seconds(quantile(times, 0.5)), `90 % within ${seconds(quantile(times, 0.9))}`],
    ["With reasoning", percent(thinking, rows.length), `${whole.format(thinking)} rows`],
  ];
  byId("figures").replaceChildren(...figures.map(([name, value, note]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, make("b", {}, value), make("small", {}, note)))));
}

function card(title, ...content) {
  return make("figure", { class: `plot-${title.toLowerCase().replaceAll(" ", "-")}` }, make("figcaption", {}, title), ...content);
}

// A bar of shares. `shares`: [name, count, colour class].
function stackedBar(shares, label) {
  const total = shares.reduce((all, share) => all + share[1], 0);
  const svg = make("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "stack", role: "img", "aria-label": label });
  let x = 0;
  for (const [name, count, colour] of shares) {
    const width = total ? (100 * count) / total : 0;
    if (count) svg.append(make("rect", { x, y: 0, width: Math.max(width, 0.4), height: 8, class: `fill-${colour}` }, make("title", {}, `${name}: ${whole.format(count)}`)));
    x += width;
  }
  return svg;
}

// A line that can be chosen: name, bar, figure. `pieces`: [count, colour class] of a bar whose full length is `most`.
function barButton(name, pieces, most, figure, choose, chosen) {
  const svg = make("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" });
  let x = 0;
  for (const [count, colour] of pieces) {
    const width = most ? (100 * count) / most : 0;
    if (count) svg.append(make("rect", { x, y: 0, width: Math.max(width, 0.6), height: 8, class: `fill-${colour}` }));
    x += width;
  }
  return make("button", { type: "button", class: "barline", onclick: choose, "aria-pressed": String(chosen) },
    make("span", { class: "label", title: visible(name) }, visible(name)), svg, make("span", { class: "figure" }, figure));
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
}

// How often values fall in each of equal steps up to the 99th percentile; the last bin holds all beyond.
function binned(values, wholeSteps) {
  const ordered = sorted(values);
  const end = Math.max(quantile(ordered, 0.99), ordered[0] ?? 0) || 1;
  const step = wholeSteps ? Math.max(1, Math.ceil(niceStep(end / BINS))) : niceStep(end / BINS);
  const count = Math.floor(end / step) + 1;
  const beyond = ordered.length > 0 && ordered[ordered.length - 1] >= count * step;
  const bins = new Array(count + (beyond ? 1 : 0)).fill(0);
  for (const value of ordered) bins[Math.min(bins.length - 1, Math.floor(value / step))] += 1;
  return { bins, step, beyond, ordered };
}

// Marks from left to right. The names of all but the last stand before their line where there is room, that of the
// last behind it. A line begins at its name: the upper one is that which would cross the name of the other.
function placedMarks(marks, place, width) {
  const placed = marks.map(([share, name]) => ({ share, name, x: place(share) }));
  placed.forEach((mark, number) => { mark.before = number < placed.length - 1 ? mark.x > 110 : mark.x > width * 0.7; });
  const lastFirst = placed.length > 1 && placed[placed.length - 1].before;
  placed.forEach((mark, number) => { mark.line = lastFirst ? placed.length - 1 - number : number; });
  return placed;
}

function histogram(values, { label, shown, colour, width, height = 132, marks = [], wholeSteps = false }) {
  if (!values.length) return make("p", { class: "none" }, "Nothing to show.");
  const { bins, step, beyond, ordered } = binned(values, wholeSteps);
  const most = Math.max(...bins);
  // Marks are named above the bars, each in a line of its own.
  const [left, right, top, bottom] = [4, 4, 16 + MARK_LINE * marks.length, 20];
  const slot = (width - left - right) / bins.length;
  const y = (count) => height - bottom - ((height - bottom - top) * count) / most;
  const middle = `median ${shown(quantile(ordered, 0.5))}, 90 % within ${shown(quantile(ordered, 0.9))}, most ${shown(ordered[ordered.length - 1])}`;
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${label}: ${middle}` });
  svg.append(make("text", { x: left, y: 10, class: "axis" }, `${short.format(most)} rows`));
  svg.append(make("line", { x1: left, x2: width - right, y1: y(most), y2: y(most), class: "grid" }));
  bins.forEach((count, bin) => {
    const last = beyond && bin === bins.length - 1;
    const range = last ? `${shown(bin * step)} and more` : wholeSteps && step === 1 ? shown(bin) : `${shown(bin * step)} to ${shown((bin + 1) * step)}`;
    const barHeight = count ? Math.max(2, height - bottom - y(count)) : 0;
    svg.append(make("g", {},
      make("rect", { x: left + bin * slot, y: top, width: slot, height: height - bottom - top, class: "hit" }),
      make("rect", { x: left + bin * slot + 0.75, y: height - bottom - barHeight, width: Math.max(1, slot - 1.5), height: barHeight, rx: 1.5, class: last ? `fill-${colour} beyond` : `fill-${colour}` }),
      make("title", {}, `${range}: ${plural(count, "row")}`)));
  });
  svg.append(make("line", { x1: left, x2: width - right, y1: height - bottom + 0.5, y2: height - bottom + 0.5, class: "base" }));
  const ticks = Math.max(1, Math.ceil(bins.length / Math.max(2, Math.floor(width / 72))));
  for (let bin = 0; bin < bins.length; bin += ticks) {
    const place = wholeSteps && step === 1 ? left + (bin + 0.5) * slot : left + bin * slot;
    if (place < width - 30) svg.append(make("text", { x: place, y: height - 6, class: "axis", "text-anchor": bin || wholeSteps ? "middle" : "start" }, shown(bin * step)));
  }
  for (const mark of placedMarks(marks, (share) => Math.min(width - right, left + (quantile(ordered, share) / step) * slot), width)) {
    const y = 12 + MARK_LINE * (mark.line + 1);
    svg.append(make("line", { x1: mark.x, x2: mark.x, y1: y - 9, y2: height - bottom, class: "mark" }),
      make("text", { x: mark.before ? mark.x - 4 : mark.x + 4, y, class: "marklabel", "text-anchor": mark.before ? "end" : "start" }, `${mark.name} ${shown(quantile(ordered, mark.share))}`));
  }
  return make("div", {}, svg, make("p", { class: "reading" }, middle));
}

function outcomes(rows, pending, filters, choose) {
  const colours = { ok: "good", discarded: "odd", error: "bad" };
  const counts = Object.entries(colours).map(([name, colour]) => [name, sum(rows, (row) => row.status === name), colour]);
  const shares = [...counts, ["pending", pending, "wait"]];
  const legend = make("div", { class: "legend" }, ...shares.filter((share) => share[1]).map(([name, count, colour]) =>
    make("span", {}, make("i", { class: `dot back-${colour}` }), `${name} ${whole.format(count)}`)));
  const reasons = counted(rows.filter((row) => row.status !== "ok"), (row) => [row.reason || "unknown"]);
  const most = reasons[0]?.[1] ?? 0;
  const lines = reasons.slice(0, REASONS_SHOWN).map(([reason, count]) => {
    const example = rows.find((row) => row.status !== "ok" && (row.reason || "unknown") === reason);
    return barButton(reason, [[count, colours[example.status]]], most, whole.format(count),
      () => choose({ reason: filters.reason === reason ? "" : reason }), filters.reason === reason);
  });
  if (reasons.length > REASONS_SHOWN) lines.push(make("p", { class: "reading" }, `and ${plural(reasons.length - REASONS_SHOWN, "other reason")}`));
  return card("Outcomes", stackedBar(shares, shares.map(([name, count]) => `${name} ${count}`).join(", ")), legend,
    make("h3", {}, "Why rows are not good"), ...(lines.length ? lines : [make("p", { class: "none" }, "Every row is good.")]));
}

function toolUse(rows, filters, choose) {
  const tools = new Map();
  for (const row of rows) for (const [name, count, failed] of row.tools) {
    const known = tools.get(name) ?? [0, 0, 0];
    tools.set(name, [known[0] + count, known[1] + failed, known[2] + 1]);
  }
  const ordered = [...tools].sort((one, other) => other[1][0] - one[1][0]);
  const most = ordered[0]?.[1][0] ?? 0;
  const lines = ordered.slice(0, TOOLS_SHOWN).map(([name, [count, failed]]) =>
    barButton(name, [[count - failed, "good"], [failed, "bad"]], most,
      failed ? `${short.format(count)} · ${short.format(failed)} failed` : short.format(count),
      () => choose({ tool: filters.tool === name ? "" : name }), filters.tool === name));
  if (ordered.length > TOOLS_SHOWN) lines.push(make("p", { class: "reading" }, `and ${plural(ordered.length - TOOLS_SHOWN, "other tool")}`));
  return card("Tool calls", make("div", { class: "legend" }, make("span", {}, make("i", { class: "dot back-good" }), "went well"), make("span", {}, make("i", { class: "dot back-bad" }), "failed")),
    ...(lines.length ? lines : [make("p", { class: "none" }, "No tool was called.")]));
}

function reasoningCoverage(rows, filters, choose) {
  const answered = rows.filter((row) => row.steps);
  const every = sum(answered, (row) => row.thinking === row.steps);
  const none = sum(answered, (row) => !row.thinking);
  const steps = sum(rows, (row) => row.steps);
  const kinds = [
    ["in every step", every, "accent", "every"], ["in some steps", answered.length - every - none, "soft", "some"],
    ["in no step", none, "odd", "without"], ["no answer at all", rows.length - answered.length, "wait", "unanswered"],
  ];
  return card("Reasoning", stackedBar(kinds, kinds.map(([name, count]) => `${name} ${count}`).join(", ")),
    ...kinds.map(([name, count, colour, filter]) => barButton(name, [[count, colour]], rows.length, `${whole.format(count)} · ${percent(count, rows.length)}`,
      () => choose({ reasoning: filters.reasoning === filter ? "" : filter }), filters.reasoning === filter)),
    make("p", { class: "reading" }, `${percent(sum(rows, (row) => row.thinking), steps)} of ${plural(steps, "step")} of the model hold reasoning`));
}

function showPlots(rows, pending, filters, choose) {
  const plots = byId("plots");
  const columns = Math.max(1, Math.floor((plots.clientWidth + 16) / 376));
  const width = Math.max(200, Math.floor((plots.clientWidth - 16 * (columns - 1)) / columns) - 34);
  const told = rows.filter((row) => row.input >= 0);
  const tokens = (value) => short.format(value);
  plots.replaceChildren(
    outcomes(rows, pending, filters, choose),
    toolUse(rows, filters, choose),
    reasoningCoverage(rows, filters, choose),
    card("Time of a row", histogram(rows.map((row) => row.seconds), { label: "Time of a row", shown: seconds, colour: "accent", width, height: 180 + 2 * MARK_LINE, marks: [[0.5, "median"], [0.9, "90 % within"]] })),
    card("Tokens of a row",
      make("h3", {}, "In"), histogram(told.map((row) => row.input), { label: "Tokens in", shown: tokens, colour: "accent", width, height: 96, wholeSteps: true }),
      make("h3", {}, "Out"), histogram(told.map((row) => row.output), { label: "Tokens out", shown: tokens, colour: "soft", width, height: 96, wholeSteps: true })),
    card("Model calls of a row", histogram(rows.map((row) => row.calls), { label: "Model calls", shown: (value) => whole.format(value), colour: "accent", width, height: 180, wholeSteps: true })),
  );
}
