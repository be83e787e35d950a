// Figures: a card with a title, a sentence, a plot and its data as CSV. Drawn anew whenever a control, the width or the
// theme changes.

const figures = [];

// {section, id, title, note, wide, keys, rows, draw}: `rows` gives the plot's data as plain objects, which is also the
// CSV; without rows the figure is not there. `draw(rows, width)` gives the SVG; `keys(rows)` the legend.
function addFigure(options) {
  const { section, id, title, wide } = options;
  const plot = make("div", { class: "plot" });
  const keys = make("ul", { class: "keys", "aria-hidden": "true" });
  const caption = make("figcaption", { id: `${id}-note` });
  const csv = make("button", { type: "button", class: "csv", "aria-label": `${title}: data as CSV`, onclick: () => download(`${id}.csv`, toCsv(options.rows())) }, "CSV");
  const element = make("figure", { class: `card${wide ? " wide" : ""}`, id, "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-note` },
    make("header", {}, make("h3", { id: `${id}-title` }, title), csv), caption, keys, plot);
  section.grid.append(element);
  figures.push({ ...options, element, plot, keys, caption, keysOf: options.keys });
}

function drawFigure(figure, rows) {
  figure.caption.textContent = typeof figure.note === "function" ? figure.note(rows) : figure.note;
  figure.keys.replaceChildren(...(figure.keysOf ? figure.keysOf(rows) : []).map(([text, color, dashed]) =>
    make("li", {}, make("i", { class: dashed ? "dash" : "", style: `background:${color};border-color:${color}` }), text)));
  const svg = figure.draw(rows, Math.max(260, figure.plot.clientWidth));
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${figure.title}. ${figure.caption.textContent}`);
  figure.plot.replaceChildren(svg);
}

// First which figures there are, because they share the width; then the figures.
function drawAll() {
  const rows = figures.map((figure) => figure.rows());
  figures.forEach((figure, i) => { figure.element.hidden = rows[i].length === 0; });
  for (const section of sections.filter((s) => s.figuresOnly)) {
    section.element.hidden = !figures.some((f) => f.section === section && !f.element.hidden);
    section.link.hidden = section.element.hidden;
  }
  figures.forEach((figure, i) => { if (!figure.element.hidden) drawFigure(figure, rows[i]); });
}

function download(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const sections = [];

function addSection(id, title, lead, { figuresOnly = true } = {}) {
  const grid = make("div", { class: "grid" });
  const element = make("section", { id, "aria-labelledby": `${id}-heading` }, make("h2", { id: `${id}-heading` }, title), lead ? make("p", { class: "lead" }, lead) : null, grid);
  document.getElementById("main").append(element);
  const link = make("a", { href: `#${id}` }, title);
  document.getElementById("contents").append(link);
  const section = { id, element, grid, link, figuresOnly };
  sections.push(section);
  return section;
}

const colors = () => ({ domain: strategies, range: strategies.map(colorOf) });
const shapes = () => ({ domain: strategies, range: strategies.map(symbolOf) });
const keysOfStrategies = (rows) => [...new Set(rows.map((row) => row.strategy))].map((name) => [name, colorOf(name)]);
const narrow = (width) => width < 480;

// Bars of one number for each row, longest first, the number written behind. `low` and `high`, where they are there,
// are the repeats' range.
function bars(rows, width, { value, label, format }) {
  const most = Math.max(...rows.map((row) => row.high ?? row[value]));
  const longest = Math.max(...rows.map((row) => row.name.length));
  return Plot.plot({
    width,
    height: Math.max(rows.length * 34 + 60, narrow(width) ? 0 : 290),
    marginBottom: 42,
    marginLeft: Math.min(width * 0.38, longest * 7 + 14),
    marginRight: 20,
    x: { domain: [0, most * 1.2], label, grid: true, ticks: narrow(width) ? 4 : 6, tickFormat: "~s", nice: false },
    y: { label: null, domain: rows.map((row) => row.name), padding: 0.32, tickSize: 0 },
    color: colors(),
    marks: [
      Plot.barX(rows, { x: value, y: "name", fill: "strategy", rx: 3, title: (row) => `${row.name}: ${format(row)}` }),
      Plot.ruleY(rows.filter((row) => row.high > row.low), { y: "name", x1: "low", x2: "high", stroke: "var(--ink)", strokeWidth: 2 }),
      Plot.text(rows, { x: (row) => Math.max(row[value], row.high ?? 0), y: "name", text: format, dx: 6, textAnchor: "start", fill: "var(--ink)", fontWeight: 600 }),
      Plot.ruleX([0], { stroke: "var(--quiet)" }),
    ],
  });
}

// Lines of `y` over `x`, one for each strategy, with marks at the points and a tip.
function lines(rows, width, { x, y, xLabel, yLabel, extra = [], points = true, yOptions = {}, xOptions = {}, z = "strategy", stroke = "strategy", color = colors(), format }) {
  return Plot.plot({
    width,
    height: narrow(width) ? 250 : 300,
    marginTop: 30,
    marginLeft: 56,
    marginRight: 18,
    marginBottom: 40,
    x: { label: xLabel, ticks: narrow(width) ? 5 : 8, ...xOptions },
    y: { label: yLabel, grid: true, ticks: 6, ...yOptions },
    color,
    symbol: shapes(),
    marks: [
      ...extra,
      Plot.lineY(rows, { x, y, z, stroke, strokeWidth: 2 }),
      points ? Plot.dot(rows, { x, y, fill: stroke, symbol: stroke === "strategy" ? "strategy" : "circle", r: 4.5 }) : null,
      Plot.tip(rows, Plot.pointer({ x, y, title: format, fill: "var(--card)", stroke: "var(--line)" })),
    ],
  });
}

// Ticks at round numbers of KiB, MiB and so on.
function byteTicks(most) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, most)) / 10));
  const rough = most / unit / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) * unit;
  const ticks = Array.from({ length: Math.ceil(most / step) + 1 }, (_, i) => i * step);
  return { ticks, domain: [0, ticks[ticks.length - 1]], tickFormat: (value) => bytes(value).replace(/\.0+ /, " ") };
}

// Whole numbers only, as workers are.
const wholeTicks = (rows, key) => ({ ticks: [...new Set(rows.map((row) => row[key]))], tickFormat: "d" });
