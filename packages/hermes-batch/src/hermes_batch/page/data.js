// Reading the page's own data. It is JSON, deflated, in base64, in blocks that are opened when they are needed.

const STATUSES = ["ok", "error", "discarded"];
const KEPT_PARTS = 6;

const blocks = (kind) => [...document.querySelectorAll(`script[data-kind="${kind}"]`)];

async function opened(block) {
  const text = block.textContent;
  const bytes = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(text)
    : Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

function listLine(line, part, place) {
  const [index, id, status, reason, title, error, tools, steps, thinking, calls, input, output, cost, seconds] = line;
  const failures = tools.reduce((sum, tool) => sum + tool[2], 0);
  const toolCalls = tools.reduce((sum, tool) => sum + tool[1], 0);
  return {
    part, place, index, id, status: STATUSES[status], reason, title, error, tools, toolCalls, failures,
    steps, thinking, calls, input, output, tokens: input < 0 ? -1 : input + output, cost, seconds,
  };
}

async function readLines() {
  const parts = await Promise.all(blocks("lines").map(opened));
  return parts.flatMap((lines, part) => lines.map((line, place) => listLine(line, part, place)));
}

// The texts of the rows, a part at a time; the last few parts are kept.
class Texts {
  constructor() {
    this.blocks = blocks("texts");
    this.kept = new Map();
  }

  async of(row) {
    return (await this.part(row.part))[row.place];
  }

  part(number) {
    const known = this.kept.get(number) ?? opened(this.blocks[number]);
    this.kept.delete(number);
    this.kept.set(number, known);
    if (this.kept.size > KEPT_PARTS) this.kept.delete(this.kept.keys().next().value);
    return known;
  }
}

// "words that must all occur", with "quotes" around those that belong together.
function searchTerms(query) {
  const found = query.toLowerCase().matchAll(/"([^"]+)"?|[^\s"]+/g);
  return [...found].map((match) => match[1] ?? match[0]);
}

function everythingSaid(row, [facts, error, parts]) {
  return [String(row.index), error, ...facts.map((fact) => fact[1]), ...parts.flat(3)].join("\n").toLowerCase();
}

// Look through the texts of `rows`, part by part, and tell of each part's finds. `wanted()` false ends it.
async function search(texts, rows, terms, wanted, tell) {
  const byPart = Map.groupBy(rows, (row) => row.part);
  let done = 0;
  for (const [number, inPart] of [...byPart].sort((one, other) => one[0] - other[0])) {
    // Not through the kept parts: a search would drive out what is being read.
    const part = await (texts.kept.get(number) ?? opened(texts.blocks[number]));
    if (!wanted()) return;
    const finds = inPart.filter((row) => {
      const said = everythingSaid(row, part[row.place]);
      return terms.every((term) => said.includes(term));
    });
    done += 1;
    tell(finds, done / byPart.size);
  }
  if (!byPart.size) tell([], 1);
}

// Control signs, and signs that turn the direction of text, are shown and not obeyed.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function visible(text) {
  return String(text).replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

// An element. Texts go in as texts: nothing from the data is ever read as markup.
function make(name, attributes = {}, ...content) {
  const svg = ["svg", "rect", "line", "text", "g", "title"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...content.filter((item) => item != null && item !== false));
  return node;
}

const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const percent = (part, all) => (all ? `${((100 * part) / all).toFixed(part === all || !part ? 0 : 1)} %` : "–");
const plural = (count, one, many = `${one}s`) => `${whole.format(count)} ${count === 1 ? one : many}`;

function seconds(value) {
  if (value >= 3600) return `${(value / 3600).toFixed(1)} h`;
  if (value >= 120) return `${(value / 60).toFixed(1)} min`;
  if (value >= 10) return `${Math.round(value)} s`;
  return value >= 0.1 || !value ? `${+value.toFixed(1)} s` : `${Math.round(value * 1000)} ms`;
}
