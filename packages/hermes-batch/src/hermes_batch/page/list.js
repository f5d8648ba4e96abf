// The list of rows. Only the rows in sight are in the document, whatever the number of rows.

const ROW_HEIGHT = 76;
const MARGIN_ROWS = 6;

class RowList {
  constructor(choose) {
    this.box = byId("list");
    this.sheet = byId("rows");
    this.rows = [];
    this.chosen = -1;
    this.choose = choose;
    this.drawing = 0;
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.sheet.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) choose(Number(option.dataset.number), true);
    });
  }

  show(rows, keep) {
    this.rows = rows;
    this.sheet.style.height = `${rows.length * ROW_HEIGHT}px`;
    this.chosen = keep ? rows.indexOf(keep) : -1;
    this.drawNow();
  }

  get row() {
    return this.rows[this.chosen];
  }

  select(number) {
    this.chosen = number;
    const top = number * ROW_HEIGHT;
    if (number >= 0) {
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      const below = top + ROW_HEIGHT - this.box.clientHeight;
      if (below > this.box.scrollTop) this.box.scrollTop = below;
    }
    this.drawNow();
  }

  draw() {
    this.drawing ||= requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW_HEIGHT) - MARGIN_ROWS);
    const end = Math.min(this.rows.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW_HEIGHT) + MARGIN_ROWS);
    const options = [];
    for (let number = first; number < end; number += 1) options.push(this.option(number));
    this.sheet.replaceChildren(...options);
    if (this.chosen >= first && this.chosen < end) this.box.setAttribute("aria-activedescendant", `row-${this.chosen}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  option(number) {
    const row = this.rows[number];
    const said = row.title || "(nothing was said)";
    const tools = row.tools.map(([name, count, failed]) =>
      make("span", { class: failed ? "chip failed" : "chip" }, `${visible(name)}${count > 1 ? ` ×${count}` : ""}`));
    const below = row.status === "ok" ? tools
      : [make("span", { class: `why ${row.status}` }, visible(row.error.split("\n")[0] || row.reason)), ...tools];
    const node = make("div", {
      role: "option", id: `row-${number}`, class: "row", "data-number": number,
      "aria-selected": String(number === this.chosen), "aria-setsize": this.rows.length, "aria-posinset": number + 1,
    },
      make("div", { class: "head" },
        make("span", { class: `badge ${row.status}` }, row.status),
        make("span", { class: "place" }, `#${row.index}`),
        make("span", { class: "id" }, visible(row.id)),
        make("span", { class: "side" }, row.thinking ? make("span", { title: "with reasoning", "aria-label": "with reasoning" }, "✻ ") : null, seconds(row.seconds))),
      make("div", { class: "said", dir: "auto" }, visible(said)),
      make("div", { class: "below" }, ...below));
    node.style.top = `${number * ROW_HEIGHT}px`;
    return node;
  }
}
