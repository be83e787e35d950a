// What the page is given, and how it is said.

const report = JSON.parse(document.getElementById("data").textContent);
// What a cell is called and coloured by is its strategy with its variant.
report.cells.forEach((cell, index) => {
  cell.index = index;
  if (cell.variant) cell.strategy = `${cell.strategy}, ${cell.variant}`;
});

const models = [...new Set(report.cells.map((cell) => cell.model))];
const strategies = [...new Set(report.cells.map((cell) => cell.strategy))];

const palette = ["#4269d0", "#e8590c", "#2b9348", "#c2255c", "#b58900", "#1098ad", "#9c36b5", "#8d6e63", "#5c7cfa", "#d6336c"];
const symbols = ["circle", "square", "triangle", "diamond", "star", "wye", "times", "plus", "hexagon", "asterisk"];
const grey = "#8b95a1";
const alone = new Set(report.cells.filter((cell) => cell.one_worker_only).map((cell) => cell.strategy));
const distributed = strategies.filter((name) => !alone.has(name));
const colorOf = (name) => (alone.has(name) ? grey : palette[distributed.indexOf(name) % palette.length]);
const symbolOf = (name) => symbols[strategies.indexOf(name) % symbols.length];

// What the controls say.
const state = { model: models[0], workers: 0, cell: -1, hidden: new Set() };

const ended = (cell) => cell.summary !== null;
const ofModel = () => report.cells.filter((cell) => cell.model === state.model);
const visible = () => ofModel().filter((cell) => ended(cell) && !state.hidden.has(cell.strategy));
// Those with the chosen number of workers, and one worker alone to set them against.
const chosen = () => visible().filter((cell) => cell.workers === state.workers || cell === baseline());
const baseline = () => ofModel().find((cell) => ended(cell) && cell.workers === 1);
const workerCounts = () => [...new Set(ofModel().filter(ended).map((cell) => cell.workers))].sort((a, b) => a - b);

const speed = (cell) => cell.summary.samples_per_second;
const steps = (cell) => Math.max(1, cell.summary.steps);
const speedUp = (cell) => (baseline() ? speed(cell) / speed(baseline()) : null);
const nameOf = (cell) => `${cell.strategy}, ${cell.workers} worker${cell.workers === 1 ? "" : "s"}`;
const agree = (cell) => cell.summary.replicas_sha256.every((digest) => digest === cell.summary.parameters_sha256);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const number = (value, digits = 2) => (Number.isFinite(value) ? value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits }) : "–");
const percent = (value, digits = 1) => (Number.isFinite(value) ? `${number(value * 100, digits)} %` : "–");

function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${number(value, unit === 0 ? 0 : value < 10 ? 2 : 1)} ${units[unit]}`;
}

// An element: make("p", {class: "quiet"}, "text", child, ...). Text is never taken for HTML.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function toCsv(rows) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const field = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((row) => row.map(field).join(",")).join("\n") + "\n";
}
