// One row to read: what was said, thought, called and returned.

const STEPS_AT_ONCE = 150;
const LONG_TEXT = 6000;
const LONG_RESULT = 1600;

// `text` as nodes, with what was searched for marked.
function marked(text, terms) {
  const shown = visible(text);
  const fragment = document.createDocumentFragment();
  const lower = shown.toLowerCase();
  if (!terms.length || lower.length !== shown.length) return shown;
  let at = 0;
  for (let marks = 0; marks < 500; marks += 1) {
    const next = terms.map((term) => [lower.indexOf(term, at), term.length]).filter((place) => place[0] >= 0)
      .sort((one, other) => one[0] - other[0] || other[1] - one[1])[0];
    if (!next) break;
    fragment.append(shown.slice(at, next[0]), make("mark", {}, shown.slice(next[0], next[0] + next[1])));
    at = next[0] + next[1];
  }
  fragment.append(shown.slice(at));
  return fragment;
}

const found = (text, terms) => terms.some((term) => text.toLowerCase().includes(term));

// A text; a long one begins cut, unless what is searched for stands in it.
function textBlock(text, terms, { long = LONG_TEXT, code = false } = {}) {
  const node = make(code ? "pre" : "div", { class: code ? "code" : "prose", dir: code ? "ltr" : "auto" });
  if (text.length <= long * 1.25 || found(text.slice(long), terms)) {
    node.append(marked(text, terms));
    return node;
  }
  node.append(marked(text.slice(0, long), terms), "…");
  const more = make("button", { type: "button", class: "more", onclick: () => {
    node.replaceChildren(marked(text, terms));
    more.remove();
    node.tabIndex = -1;
    node.focus();
  } }, `Show all ${whole.format(text.length)} characters`);
  return make("div", {}, node, more);
}

function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

// JSON objects by their keys, so that a file's text in an argument reads as a file; all else as it is.
function structured(text, terms, long) {
  const object = parsed(text);
  if (!object) return textBlock(text, terms, { long, code: true });
  const keys = Object.entries(object);
  if (!keys.length) return make("p", { class: "none" }, "no arguments");
  return make("dl", { class: "fields" }, ...keys.flatMap(([key, value]) => {
    const shown = typeof value === "string" ? value : JSON.stringify(value, null, 2);
    return [make("dt", {}, marked(key, terms)), make("dd", {}, textBlock(shown, terms, { long, code: true }))];
  }));
}

const FAILED_START = /^\s*(error\b|traceback \(most recent|denied\b|not run:|timed out after|interrupted by)/i;
const FAILED_END = /\[exit code (?!0\b)[^\]\n]*\]/;

// The format of the rows does not say whether a call went well: the text does.
function looksFailed(text) {
  const object = parsed(text);
  if (!object) return FAILED_START.test(text) || FAILED_END.test(text.slice(-200));
  return Boolean(object.error) || object.success === false || object.ok === false
    || (Number.isInteger(object.exit_code) && object.exit_code !== 0);
}

function step(kind, title, ...content) {
  return make("section", { class: `step ${kind}`, "aria-label": title }, make("h3", {}, title), ...content);
}

function assistantSteps([, reasoning, text, calls], terms) {
  const content = [];
  if (reasoning) {
    content.push(make("details", { class: "reasoning", open: found(reasoning, terms) },
      make("summary", {}, `Reasoning · ${plural(reasoning.trim().split(/\s+/).length, "word")}`), textBlock(reasoning, terms)));
  }
  if (text) content.push(textBlock(text, terms));
  if (!text && !calls.length) content.push(make("p", { class: "none" }, "nothing visible was said"));
  return [
    step("assistant", "Assistant", ...content),
    ...calls.map(([id, name, given]) => step("call", `Call · ${visible(name)}`, make("p", { class: "callid" }, visible(id)), structured(given, terms, LONG_RESULT))),
  ].filter((node) => content.length || !node.matches(".assistant"));
}

function partSteps(part, terms) {
  switch (part[0]) {
    case "system":
      return [step("system", "System", make("details", { open: found(part[1], terms) },
        make("summary", {}, [part[1] ? "instructions" : "", part[2] ? plural(part[2].length, "tool") : ""].filter(Boolean).join(", ") || "empty"),
        part[1] ? textBlock(part[1], terms) : null,
        part[2] ? make("p", { class: "chips" }, ...part[2].map((name) => make("span", { class: "chip" }, visible(name)))) : null))];
    case "user":
      return [step("user", "User", textBlock(part[1], terms))];
    case "assistant":
      return assistantSteps(part, terms);
    case "tool": {
      const failed = looksFailed(part[3]);
      return [step(failed ? "result failed" : "result", `${failed ? "Failed" : "Result"} · ${visible(part[2] || "tool")}`,
        make("p", { class: "callid" }, visible(part[1])), structured(part[3], terms, LONG_RESULT))];
    }
    default:
      return [step("other", visible(part[1]), textBlock(part[2], terms, { code: true }))];
  }
}

function figuresOf(row) {
  const figures = [
    seconds(row.seconds), plural(row.calls, "model call"),
    row.tokens >= 0 ? `${whole.format(row.input)} tokens in, ${whole.format(row.output)} out` : "",
    row.cost >= 0 ? `$${row.cost.toFixed(4)}` : "",
    row.toolCalls ? `${plural(row.toolCalls, "tool call")}${row.failures ? `, ${row.failures} failed` : ""}` : "no tool called",
    row.steps ? `reasoning in ${row.thinking} of ${plural(row.steps, "step")}` : "",
  ];
  return figures.filter(Boolean).join(" · ");
}

function showDetail(row, [facts, error, parts], terms, leave) {
  const detail = byId("detail");
  const steps = make("div", { class: "steps" });
  const addSteps = (from) => {
    const upTo = Math.min(parts.length, from + STEPS_AT_ONCE);
    for (const part of parts.slice(from, upTo)) steps.append(...partSteps(part, terms));
    if (upTo < parts.length) {
      const more = make("button", { type: "button", class: "more", onclick: () => { more.remove(); addSteps(upTo); } },
        `Show ${plural(Math.min(STEPS_AT_ONCE, parts.length - upTo), "more step")} of ${whole.format(parts.length - upTo)}`);
      steps.append(more);
    }
  };
  addSteps(0);
  detail.replaceChildren(
    make("header", {},
      make("button", { type: "button", class: "back", onclick: leave }, "← Back"),
      make("h2", { tabindex: "-1" }, `Row ${row.index}`, make("span", { class: `badge ${row.status}` }, row.status)),
      make("p", {}, figuresOf(row))),
    ...(error || row.status !== "ok" ? [make("div", { class: `trouble ${row.status}`, role: "note" },
      make("strong", {}, visible(row.reason || row.status)), error ? textBlock(error, terms, { code: true }) : null)] : []),
    steps,
    ...(parts.some((part) => part[0] !== "system") ? [] : [make("p", { class: "none" }, "Nothing was said in this row.")]),
    make("details", { class: "facts" }, make("summary", {}, "About this row"),
      make("dl", { class: "fields" }, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, marked(value, terms))]))));
  byId("main").scrollTop = 0;
}
