// A study: its claims, tables and figures, with its own numbers beside ours.

const words = { true: ["confirmed", "good"], false: ["not confirmed", "bad"], null: ["not measured", "quiet"] };

function claimRow(claim) {
  const [word, kind] = words[String(claim.holds)];
  return make("tr", {}, make("th", { scope: "row", class: "claim" }, claim.text), make("td", { class: `text ${kind}` }, word),
    make("td", { class: "text" }, claim.reported || "–"), make("td", { class: "text" }, claim.ours || "–"));
}

// As many digits as say something; `counts` are whole.
function figureOf(value, counts = Number.isInteger(value)) {
  if (value === null) return "–";
  if (typeof value !== "number") return value;
  if (counts) return whole.format(value);
  const size = Math.abs(value);
  return number(value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4);
}

function studyTable({ title, header, rows }) {
  const counts = header.map((_, i) => rows.every((row) => typeof row[i] !== "number" || Number.isInteger(row[i])));
  const cells = (row) => row.map((value, i) => (i === 0 ? make("th", { scope: "row" }, figureOf(value, counts[0]))
    : make("td", { class: typeof value === "string" ? "plain" : "" }, figureOf(value, counts[i]))));
  return table(title, header.map((text, i) => [text, rows.every((row) => typeof row[i] === "string") ? "text" : ""]), rows.map((row) => make("tr", {}, cells(row))));
}

// Lines of ours in the colours of their strategies, where they are one; dashed: theirs, or what theory says.
function drawStudy(chart, rows, width) {
  const names = chart.lines.map((line) => line.name);
  const color = { domain: names, range: names.map((name, i) => lineColor(chart, i)) };
  const dashed = new Set(chart.lines.filter((line) => line.reference).map((line) => line.name));
  return Plot.plot({
    width, height: narrow(width) ? 250 : 300, marginTop: 30, marginLeft: 60, marginRight: 18, marginBottom: 40,
    x: { label: chart.x, ...(rows.every((row) => Number.isInteger(row.x) && row.x <= 16) ? wholeTicks(rows, "x") : {}) },
    y: { label: chart.y, grid: true, zero: !/accuracy/i.test(chart.title), ticks: 6, tickFormat: rows.some((row) => row.y >= 1000) ? "~s" : undefined }, color,
    marks: [
      ...[false, true].map((reference) => Plot.lineY(rows.filter((row) => dashed.has(row.line) === reference), { x: "x", y: "y", z: "line", stroke: "line", strokeWidth: 2, strokeDasharray: reference ? "5 4" : null })),
      ...(dashed.size > 1 ? [...dashed] : []).map((line, i) => Plot.text(rows.filter((row) => row.line === line).slice(-1), { x: "x", y: "y", text: "line", textAnchor: "end", dy: i % 2 ? 13 : -8, fill: grey })),
      Plot.dot(rows.filter((row) => !dashed.has(row.line)), { x: "x", y: "y", fill: "line", r: 4 }),
      Plot.tip(rows, Plot.pointer({ x: "x", y: "y", title: (row) => `${row.line}\n${chart.x} ${figureOf(row.x)}: ${figureOf(row.y)}`, fill: "var(--card)", stroke: "var(--line)" })),
    ],
  });
}

const lineColor = (chart, i) => {
  const { name, reference } = chart.lines[i];
  if (reference) return grey;
  return strategies.includes(name) ? colorOf(name) : palette[i % palette.length];
};

const noteOf = (chart) => [
  chart.lines.some((line) => line.reference) ? "Ours in full lines; dashed: theirs, or what theory says." : "",
  report.cells.some((cell) => ended(cell) && cell.summary.emulated) ? "On emulated links." : "",
  report.cells.some((cell) => ended(cell) && cell.summary.pace_ms > 0) ? "Computing is paced, not done." : "",
].filter(Boolean).join(" ");

function addStudy(study) {
  const holding = study.claims.filter((claim) => claim.holds).length;
  const section = addSection("study", "The study", `${study.ran}${study.quick ? " A quick run: a part of the study's own." : ""}`, { figuresOnly: false });
  const claims = table(`${holding} of ${study.claims.length} claims are confirmed by these runs.`, [["claim"], ["", "text"], ["they reported", "text"], ["ours", "text"]], study.claims.map(claimRow), { className: "claims" });
  section.grid.append(make("div", { class: "wide" }, claims), ...study.tables.map((t) => make("div", { class: "wide" }, studyTable(t))));
  study.charts.forEach((chart, i) => addFigure({
    section, id: `study-${i + 1}`, title: chart.title, note: noteOf(chart),
    keys: () => chart.lines.map((line, k) => [line.name, lineColor(chart, k), line.reference]),
    rows: () => chart.lines.flatMap((line) => line.points.map(([x, y]) => ({ line: line.name, x, y }))),
    draw: (rows, width) => drawStudy(chart, rows, width),
  }));
}
