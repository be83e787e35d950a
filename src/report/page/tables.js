// Everything that is read rather than seen: results, routes, differences, settings, machine.

function table(caption, heads, rows, { className = "" } = {}) {
  return make("div", { class: `scroll card ${className}`, tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, make("span", {}, caption)),
      make("thead", {}, make("tr", {}, heads.map(([text, kind]) => make("th", { scope: "col", class: kind ?? "" }, text)))),
      make("tbody", {}, rows)));
}

const dotOf = (cell) => make("span", { class: "dotmark", style: `background:${colorOf(cell.strategy)}`, "aria-hidden": "true" });

function spread(cell) {
  const all = cell.repeats.map((repeat) => repeat.samples_per_second);
  if (all.length < 2) return "–";
  return `± ${percent(Math.max(Math.max(...all) - speed(cell), speed(cell) - Math.min(...all)) / speed(cell))}`;
}

function resultRow(cell, most, best, columns) {
  const head = make("th", { scope: "row" }, dotOf(cell), cell.strategy);
  if (!ended(cell)) {
    return make("tr", { class: "failed" }, head, make("td", {}, cell.workers), make("td", { colspan: columns - 2, class: "reason" }, cell.failure ? `failed: ${cell.failure}` : "did not run"));
  }
  const s = cell.summary;
  const say = [agree(cell) ? make("span", { class: "good" }, "equal") : make("span", { class: "bad" }, "differ"), cell.doubt ? make("span", { class: "bad" }, ` ${cell.doubt}`) : null];
  const row = [
    whole.format(speed(cell)), speedUp(cell) === null ? "–" : `${number(speedUp(cell))} ×`, speedUp(cell) === null ? "–" : percent(speedUp(cell) / cell.workers, 0),
    number(s.step_ms.median, 1), number(s.exposed_exchange_ms), bytes(s.bytes_sent_per_worker / steps(cell)),
    s.train_loss === null ? "–" : number(s.train_loss, 3), s.test_accuracy === null ? "–" : percent(s.test_accuracy, 2),
  ];
  const cells = row.map((text, i) => make("td", {}, text, i === 0 ? make("span", { class: "meter", style: `width:${(speed(cell) / most) * 100}%;background:${colorOf(cell.strategy)}`, "aria-hidden": "true" }) : null));
  if (columns > 11) cells.splice(1, 0, make("td", {}, spread(cell)));
  return make("tr", { class: cell === best ? "best" : "" }, head, make("td", {}, cell.workers), cells, make("td", {}, say));
}

function resultsTable() {
  const cells = ofModel();
  const done = cells.filter(ended);
  const most = Math.max(...done.map(speed));
  const largest = Math.max(...done.map((cell) => cell.workers));
  const best = done.filter((cell) => cell.workers === largest).sort((a, b) => speed(b) - speed(a))[0];
  const repeated = cells.some((cell) => cell.repeats.length > 1);
  const heads = [["strategy"], ["workers"], ["samples/s"], ...(repeated ? [["spread"]] : []), ["speed-up"], ["efficiency"], ["step, ms"], ["waited for exchange, ms"], ["worker sent a step"], ["train loss"], ["test accuracy"], ["replicas"]];
  const sentence = `Every run of the comparison${repeated ? ", the median of its repeats" : ""}${best ? `; the fastest with ${largest} worker${largest === 1 ? "" : "s"} is marked` : ""}.`;
  return table(report.kind === "run" ? "The run in figures." : sentence, heads, cells.map((cell) => resultRow(cell, most, report.kind === "run" ? null : best, heads.length)));
}

function tiles() {
  const done = ofModel().filter((cell) => ended(cell) && !cell.doubt);
  if (done.length === 0) return null;
  const top = (cells, value) => cells.reduce((a, b) => (value(b) > value(a) ? b : a));
  const fastest = top(done, speed);
  const graded = done.filter((cell) => cell.summary.test_accuracy !== null);
  const tile = (what, value, of) => make("div", { class: "card tile" }, make("dt", {}, what), make("dd", {}, value), make("dd", {}, of));
  const one = report.kind === "run";
  const list = [tile(one ? "Throughput" : "Highest throughput", `${whole.format(speed(fastest))}/s`, `samples, ${nameOf(fastest)}`)];
  const many = done.filter((cell) => cell.workers > 1);
  if (many.length > 0 && baseline()) {
    const best = top(many, speedUp);
    list.push(tile("Highest speed-up", `${number(speedUp(best))} ×`, `${nameOf(best)}: ${percent(speedUp(best) / best.workers, 0)} of the ideal`));
  }
  if (many.length > 0) {
    const least = top(many, (cell) => -cell.summary.exposed_exchange_ms);
    list.push(tile(one ? "Waited for the exchange" : "Least wait for the exchange", `${number(least.summary.exposed_exchange_ms)} ms`, `of a step of ${number(least.summary.step_ms.median, 1)} ms, ${nameOf(least)}`));
  }
  if (graded.length > 0) {
    const best = top(graded, (cell) => cell.summary.test_accuracy);
    list.push(tile(one ? "Test accuracy" : "Best test accuracy", percent(best.summary.test_accuracy, 2), `${nameOf(best)}, ${whole.format(best.summary.steps)} steps`));
  }
  return make("dl", { class: "tiles" }, list);
}

function differencesTable() {
  const rows = (report.differences ?? []).filter((row) => report.cells[row.first].model === state.model);
  if (rows.length === 0) return null;
  return table("The last checkpoints, each beside the first with the same number of workers: from the same weights and seed, how far did the strategies come apart?",
    [["run"], ["beside", "text"], ["elements that differ"], ["largest difference"], ["in ULPs"], ["largest in", "text"]],
    rows.map((row) => {
      const cell = report.cells[row.second];
      const start = [make("th", { scope: "row" }, dotOf(cell), nameOf(cell)), make("td", { class: "text" }, nameOf(report.cells[row.first]))];
      if (row.identical) return make("tr", {}, start, make("td", { class: "good" }, "none: the same bits"), make("td", {}, "0"), make("td", {}, "0"), make("td", {}, ""));
      if (row.unreadable) return make("tr", { class: "failed" }, start, make("td", { colspan: 4, class: "reason" }, row.unreadable));
      return make("tr", {}, start, make("td", {}, `${whole.format(row.differing)} of ${whole.format(row.elements)}`), make("td", {}, row.max_abs.toExponential(2)),
        make("td", {}, whole.format(row.max_ulps)), make("td", { class: "text" }, make("code", {}, row.tensor)));
    }));
}

// Which runs ended with the same weights: strategies by numbers of workers, a colour a digest.
function hashesTable() {
  const done = ofModel().filter(ended);
  if (done.length < 2) return null;
  const digests = [...new Set(done.map((cell) => cell.summary.parameters_sha256))];
  const rows = [...new Set(done.map((cell) => cell.strategy))];
  const reproducible = done.every((cell) => cell.summary.reproducible);
  const said = digests.length === 1 ? "all runs ended with the same bits" : `${done.length} runs, ${digests.length} different ends`;
  return table(`Final weights by SHA-256, shortened: ${said}${reproducible ? " (--reproducible)" : ""}.`,
    [["strategy"], ...workerCounts().map((n) => [`${n} worker${n === 1 ? "" : "s"}`])],
    rows.map((strategy) => make("tr", {}, make("th", { scope: "row" }, strategy), workerCounts().map((n) => {
      const cell = done.find((c) => c.strategy === strategy && c.workers === n);
      if (!cell) return make("td", {}, "");
      const digest = cell.summary.parameters_sha256;
      return make("td", {}, make("code", { class: "digest", style: `border-color: ${palette[digests.indexOf(digest) % palette.length]}` }, digest.slice(0, 8)));
    }))));
}

function routesTable() {
  const cell = ofModel().find((c) => ended(c) && c.summary.routes);
  if (!cell) return null;
  const largest = [...cell.summary.routes].sort((a, b) => b.bytes - a.bytes);
  return table(`Which way each parameter's gradient went: ${nameOf(cell)}.`, [["parameter"], ["size"], ["way", "text"], ["touched a step"], ["why", "text"]],
    largest.map((route) => make("tr", {}, make("th", { scope: "row" }, make("code", {}, route.parameter)), make("td", {}, bytes(route.bytes)),
      make("td", { class: "text" }, route.route), make("td", {}, percent(route.density)), make("td", { class: "text" }, route.reason))));
}

const said = (value) => (typeof value === "string" ? value || "–" : JSON.stringify(value));

function pairs(entries) {
  return make("dl", { class: "pairs" }, entries.map(([key, value]) => make("div", {}, make("dt", {}, key.replaceAll("_", " ")), make("dd", {}, said(value)))));
}

// Settings that all runs share, and those in which they differ.
function settings() {
  const done = ofModel().filter(ended);
  if (done.length === 0) return [];
  const keys = Object.keys(done[0].summary.config);
  const same = (key) => done.every((cell) => JSON.stringify(cell.summary.config[key]) === JSON.stringify(done[0].summary.config[key]));
  const different = keys.filter((key) => !same(key) && key !== "out");
  return [
    make("details", { class: "card" }, make("summary", {}, `Settings${done.length > 1 ? " of all runs" : ""}`), pairs(keys.filter((key) => same(key) && key !== "resume").map((key) => [key, done[0].summary.config[key]]))),
    different.length > 0 ? make("details", { class: "card" }, make("summary", {}, "Settings in which the runs differ"),
      table("Resolved, run by run.", [["run"], ...different.map((key) => [key.replaceAll("_", " ")])],
        done.map((cell) => make("tr", {}, make("th", { scope: "row" }, nameOf(cell)), different.map((key) => make("td", {}, said(cell.summary.config[key]))))))) : null,
    make("details", { class: "card" }, make("summary", {}, "Digests"),
      table("SHA-256, by which the runs were held against each other: shortened here, whole in summary.json.", [["run"], ["initial weights"], ["samples in their order"], ["final weights"]],
        done.map((cell) => make("tr", {}, make("th", { scope: "row" }, nameOf(cell)),
          ["initial_parameters_sha256", "samples_sha256", "parameters_sha256"].map((key) => make("td", {}, make("code", {}, (cell.summary[key] ?? "–").slice(0, 16)))))))),
  ];
}

function machine() {
  const cell = ofModel().find((c) => ended(c) && c.summary.machine);
  if (!cell) return null;
  const m = cell.summary.machine;
  return make("details", { class: "card", open: true }, make("summary", {}, "Machine"), pairs([["processor", m.cpu || "not told by the kernel"], ["cores", m.cores], ["memory", bytes(m.memory_bytes)], ["kernel", m.kernel]]));
}
