// How fast, and how well: throughput, scaling, loss and accuracy.

const speedRows = (cells) => cells.map((cell) => {
  const all = cell.repeats.map((repeat) => repeat.samples_per_second);
  return {
    name: cell.workers === 1 || state.workers === 1 ? nameOf(cell) : cell.strategy,
    strategy: cell.strategy, workers: cell.workers, samples_per_second: speed(cell),
    low: all.length > 1 ? Math.min(...all) : null, high: all.length > 1 ? Math.max(...all) : null,
    speed_up: speedUp(cell), efficiency: baseline() ? speedUp(cell) / cell.workers : null,
  };
});

// Alone every strategy is the same training, measured once: each line begins there.
function scalingRows() {
  const singleWorker = baseline();
  const rows = speedRows(visible().filter((cell) => cell !== singleWorker || !cell.one_worker_only));
  if (!singleWorker) return rows;
  const [start] = speedRows([singleWorker]);
  const missing = [...new Set(rows.map((row) => row.strategy))].filter((name) => !rows.some((row) => row.strategy === name && row.workers === 1));
  return [...missing.map((strategy) => ({ ...start, strategy })), ...rows].sort((a, b) => a.workers - b.workers);
}

const several = (rows) => (new Set(rows.map((row) => row.workers)).size > 1 ? rows : []);

function curveRows() {
  return chosen().filter((cell) => cell.metrics && cell.summary.train_loss !== null).flatMap((cell) => cell.metrics.steps.step.map((step, i) => ({
    strategy: cell.strategy, workers: cell.workers, step, seconds: cell.metrics.steps.seconds[i], loss: cell.metrics.steps.loss[i],
  })));
}

// A running mean, so that curves can be told apart.
function smooth(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.strategy, [...(groups.get(row.strategy) ?? []), row]);
  return [...groups.values()].flatMap((group) => {
    const reach = Math.max(1, Math.round(group.length / 40));
    return group.map((row, i) => {
      const near = group.slice(Math.max(0, i - reach), i + reach + 1);
      return { ...row, loss: near.reduce((sum, r) => sum + r.loss, 0) / near.length };
    });
  });
}

function accuracyRows() {
  return chosen().filter((cell) => cell.metrics).flatMap((cell) => cell.metrics.evaluations.filter((e) => Number.isFinite(e.accuracy)).map((e) => ({
    strategy: cell.strategy, workers: cell.workers, step: e.step, seconds: e.seconds, accuracy: e.accuracy, test_loss: e.loss, name: nameOf(cell),
  })));
}

function addProgress() {
  const fast = addSection("speed", "Speed", "Samples a second of all workers together, and what more workers bring.");
  addFigure({
    section: fast, id: "throughput", title: "Throughput", wide: report.kind === "run",
    note: () => `Samples a second with ${state.workers} worker${state.workers === 1 ? "" : "s"}${ofModel().some((c) => c.repeats.length > 1) ? ": the median of the repeats, the line their range" : ""}.`,
    rows: () => speedRows(chosen()).sort((a, b) => b.samples_per_second - a.samples_per_second),
    draw: (rows, width) => bars(rows, width, { value: "samples_per_second", label: "samples/s", format: (row) => whole.format(row.samples_per_second) }),
  });
  const against = (id, title, note, value, yLabel, extra, format, yOptions = {}) => addFigure({
    section: fast, id, title, note, keys: keysOfStrategies,
    rows: () => several(scalingRows()).filter((row) => row[value] !== null),
    draw: (rows, width) => lines(rows, width, {
      x: "workers", y: value, xLabel: "workers", yLabel, xOptions: wholeTicks(rows, "workers"), yOptions: { zero: true, ...yOptions },
      extra: extra(rows), format: (row) => `${row.strategy}, ${row.workers} workers\n${format(row)}`,
    }),
  });
  const ideal = (rows, value, of) => Plot.lineY([...new Set(rows.map((row) => row.workers))].map((n) => ({ workers: n, [value]: of(n) })),
    { x: "workers", y: value, stroke: "var(--quiet)", strokeDasharray: "5 4" });
  against("throughput-workers", "Throughput against workers", "Samples a second of all workers together.", "samples_per_second", "samples/s", () => [], (row) => `${whole.format(row.samples_per_second)} samples/s`, { tickFormat: "~s" });
  against("speed-up", "Speed-up", "Times the throughput of one worker; dashed: as many times as there are workers.", "speed_up", "times one worker",
    (rows) => [ideal(rows, "speed_up", (n) => n)], (row) => `${number(row.speed_up)} times one worker`);
  against("efficiency", "Scaling efficiency", "Speed-up divided by the number of workers; dashed: nothing lost.", "efficiency", "of the ideal",
    (rows) => [ideal(rows, "efficiency", () => 1)], (row) => percent(row.efficiency), { tickFormat: "%" });

  const learning = addSection("learning", "Learning", "The same seed, the same samples, the same initial weights: what differs is how gradients become parameters.");
  const loss = (id, title, x, xLabel, what) => addFigure({
    section: learning, id, title, keys: keysOfStrategies, rows: curveRows,
    note: `The mean of rank 0's samples, smoothed over a twentieth of the run. ${what}`,
    draw: (rows, width) => lines(smooth(rows), width, { x, y: "loss", xLabel, yLabel: "training loss", points: false, format: (row) => `${row.strategy}\nstep ${row.step}, ${number(row.seconds, 1)} s\nloss ${number(row.loss, 4)}` }),
  });
  loss("loss-steps", "Loss against steps", "step", "steps", "With more workers a step sees more samples, unless the batch is that of all together.");
  loss("loss-time", "Loss against time", "seconds", "seconds in steps", "Time in steps, without evaluation and checkpoints.");
  const many = (rows) => new Set(rows.map((row) => row.step)).size > 1 && rows.length > new Set(rows.map((row) => row.name)).size;
  const accuracy = (id, title, x, xLabel) => addFigure({
    section: learning, id, title, keys: keysOfStrategies, note: "On the test part, by the whole model.",
    rows: () => (many(accuracyRows()) ? accuracyRows() : []),
    draw: (rows, width) => lines(rows, width, { x, y: "accuracy", xLabel, yLabel: "test accuracy", yOptions: { tickFormat: "%" }, format: (row) => `${row.strategy}\nstep ${row.step}, ${number(row.seconds, 1)} s\n${percent(row.accuracy, 2)}` }),
  });
  accuracy("accuracy-steps", "Accuracy against steps", "step", "steps");
  accuracy("accuracy-time", "Accuracy against time", "seconds", "seconds in steps");
  addFigure({
    section: learning, id: "accuracy-end", title: "Accuracy against time at the end", keys: keysOfStrategies,
    note: "Each run was evaluated once, at its end: high and to the left is good.",
    rows: () => (many(accuracyRows()) || report.kind === "run" ? [] : accuracyRows()), wide: true,
    draw: (rows, width) => Plot.plot({
      width, height: 280, marginTop: 30, marginLeft: 56, marginRight: 18, marginBottom: 40, inset: 14,
      x: { label: "seconds in steps", zero: true }, y: { label: "test accuracy", grid: true, tickFormat: (v) => percent(v, 1), ticks: 5 }, color: colors(), symbol: shapes(),
      marks: [
        Plot.dot(rows, { x: "seconds", y: "accuracy", fill: "strategy", symbol: "strategy", r: 6 }),
        Plot.tip(rows, Plot.pointer({ x: "seconds", y: "accuracy", title: (row) => `${row.name}\n${percent(row.accuracy, 2)} after ${number(row.seconds, 1)} s`, fill: "var(--card)" })),
      ],
    }),
  });
}
