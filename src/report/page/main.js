// The page: verdict, table, controls, sections.

const main = document.getElementById("main");

function symbolIcon(name) {
  const svg = Plot.plot({ width: 12, height: 12, margin: 0, axis: null, symbol: shapes(), marks: [Plot.dot([{ name }], { frameAnchor: "middle", symbol: "name", fill: colorOf(name), r: 4.5 })] });
  svg.setAttribute("aria-hidden", "true");
  return svg;
}

function chips() {
  return make("div", { class: "chips", role: "group", "aria-label": "Strategies that are drawn" }, strategies.map((name) =>
    make("button", {
      type: "button", class: "chip", "aria-pressed": "true", "data-strategy": name,
      onclick: (event) => {
        const shown = state.hidden.delete(name) || !state.hidden.add(name);
        event.currentTarget.setAttribute("aria-pressed", String(shown));
        drawAll();
      },
    }, symbolIcon(name), name)));
}

function choice(label, id, values, current, onchange) {
  const select = make("select", { id, onchange: (event) => onchange(event.target.value) }, values.map(([value, text]) => make("option", { value, selected: String(value) === String(current) }, text)));
  return make("label", { for: id }, label, select);
}

// The run whose nodes and rounds are shown: with the most workers, one that has rounds, if there is one.
function usualCell() {
  const endedCells = ofModel().filter((cell) => ended(cell) && cell.workers === state.workers);
  const representative = endedCells.find((cell) => (cell.schedules ?? []).some((s) => s.rounds)) ?? endedCells[0];
  return representative ? representative.index : -1;
}

function controls() {
  const box = make("div", { class: "controls", id: "controls" });
  if (models.length > 1) box.append(choice("Network", "model", models.map((name) => [name, name]), state.model, (value) => { state.model = value; beginModel(); }));
  if (strategies.length > 1) box.append(chips());
  const counts = workerCounts();
  if (counts.length > 1) {
    box.append(choice("Workers", "workers", counts.map((n) => [n, n]), state.workers, (value) => {
      state.workers = Number(value);
      state.cell = usualCell();
      document.getElementById("cell").value = state.cell;
      drawAll();
    }));
  }
  const done = ofModel().filter(ended);
  if (done.length > 1) box.append(choice("Run for nodes and rounds", "cell", done.map((cell) => [cell.index, nameOf(cell)]), state.cell, (value) => { state.cell = Number(value); drawAll(); }));
  return box;
}

// What depends on the network that is chosen, but for the figures.
function beginModel() {
  state.workers = Math.max(1, ...workerCounts());
  state.cell = usualCell();
  overview.replaceChildren(...[tiles(), controls()].filter(Boolean));
  results.grid.replaceChildren(make("div", { class: "wide" }, resultsTable()));
  const damaged = ofModel().filter((cell) => cell.metrics && cell.metrics.damaged_lines > 0);
  if (damaged.length > 0) results.grid.append(make("p", { class: "wide bad" }, `Lines of metrics.jsonl that could not be read: ${damaged.map((cell) => `${nameOf(cell)}: ${cell.metrics.damaged_lines}`).join("; ")}`));
  const checks = [hashesTable(), differencesTable(), routesTable()].filter(Boolean);
  checked.grid.replaceChildren(...checks.map((t) => make("div", { class: "wide" }, t)));
  checked.element.hidden = checked.link.hidden = checks.length === 0;
  told.grid.replaceChildren(make("div", { class: "wide" }, [machine(), ...settings()].filter(Boolean)));
  drawAll();
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll(".theme button")) button.setAttribute("aria-pressed", String(button.dataset.theme === theme));
  try {
    localStorage.setItem("tutti-theme", theme);
  } catch { /* a page of a file may have no storage */ }
}

function storedTheme() {
  try {
    return localStorage.getItem("tutti-theme") ?? "auto";
  } catch {
    return "auto";
  }
}

const first = report.cells.find(ended);
const title = report.study ? report.study.title : report.kind === "run" && first ? `${first.model} under ${first.strategy}, ${first.workers} worker${first.workers === 1 ? "" : "s"}` : `${models.join(", ")}${first ? ` on ${first.summary.data}` : ""}`;
document.getElementById("headline").textContent = title;
document.title = `${title} – tutti`;
document.getElementById("subtitle").textContent = [
  report.kind === "comparison" ? `${strategies.length} strategies, ${report.cells.reduce((sum, cell) => sum + Math.max(1, cell.repeats.length), 0)} runs` : first ? `on ${first.summary.data}` : "",
  first ? `batch ${first.summary.config.global_batch > 0 ? `${whole.format(first.summary.config.global_batch)} of all workers together` : `${whole.format(first.summary.batch_per_worker)} a worker`}, ${whole.format(first.summary.steps)} steps, seed ${first.summary.seed}` : "",
].filter(Boolean).join(" · ");
document.getElementById("footer").textContent = `Made by tutti ${report.version} from this folder's files; everything shown was measured in these runs.`;

if (report.study) addStudy(report.study);
if (report.verdict) {
  main.append(make("section", { class: "card verdict", "aria-label": "Verdict" }, make("div", { class: "label" }, "Verdict"), report.verdict.split("\n").map((text) => make("p", {}, text))));
}
const overview = make("div", { id: "overview" });
main.append(overview);
const results = addSection("results", "Results", null, { figuresOnly: false });
addProgress();
addExchange();
addNodes();
const checked = addSection("checks", "Checks", "What the strategies' promises came to.", { figuresOnly: false });
const told = addSection("settings", "Settings and machine", null, { figuresOnly: false });

document.querySelectorAll(".theme button").forEach((button) => button.addEventListener("click", () => setTheme(button.dataset.theme)));
setTheme(storedTheme());
beginModel();

let width = window.innerWidth;
let pending = 0;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;  // a phone's bars come and go
  width = window.innerWidth;
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(drawAll);
});
