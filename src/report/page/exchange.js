// Where a step's time goes, what travels, in which rounds, and how stale gradients were.

const parts = [
  ["compute", "compute", "#4269d0"],
  ["exposed", "exchange, waited for", "#e8590c"],
  ["waiting", "waiting for data", "#b58900"],
  ["hidden", "exchange behind compute", "#1098ad"],
];

function anatomyRows() {
  return chosen().filter((cell) => cell.metrics && cell.metrics.anatomy).flatMap((cell) => {
    const anatomy = cell.metrics.anatomy;
    const row = (lane, part) => ({ name: nameOf(cell), strategy: cell.strategy, workers: cell.workers, lane, part, milliseconds: anatomy[part] });
    return [row("worker", "compute"), row("worker", "exposed"), row("worker", "waiting"),
      ...(anatomy.hidden + anatomy.exposed > 0.005 ? [row("network", "hidden"), row("network", "exposed")] : [])];
  });
}

function drawAnatomy(rows, width) {
  const names = [...new Set(rows.map((row) => row.name))];
  const longest = Math.max(...names.map((name) => name.length));
  const left = narrow(width) ? 62 : longest * 6.6 + 76;
  const small = narrow(width);
  return Plot.plot({
    width, height: names.length * (small ? 74 : 52) + 44, marginLeft: left, marginRight: 12, marginTop: small ? 18 : 6, marginBottom: 36,
    x: { label: "milliseconds a step", grid: true, ticks: small ? 4 : 8 },
    y: { domain: ["worker", "network"], label: null, axis: null, padding: 0.12 },
    fy: { domain: names, label: null, padding: small ? 0.42 : 0.28, axis: null },
    color: { domain: parts.map(([part]) => part), range: parts.map(([, , color]) => color) },
    marks: [
      small ? Plot.text(names, { fy: (name) => name, text: (name) => name, frameAnchor: "top-left", dy: -15, fontWeight: 600 })
            : Plot.text(names, { fy: (name) => name, text: (name) => name, frameAnchor: "left", dx: -left + 2, textAnchor: "start", fontWeight: 600, fontSize: 12 }),
      Plot.axisY({ tickSize: 0, label: null, fontSize: 10, color: "var(--quiet)" }),
      Plot.barX(rows, { x: "milliseconds", y: "lane", fy: "name", fill: "part", title: (row) => `${row.name}, ${parts.find(([part]) => part === row.part)[1]}: ${number(row.milliseconds)} ms` }),
      Plot.ruleX([0], { stroke: "var(--quiet)" }),
    ],
  });
}

function bytesRows() {
  const measured = visible().flatMap((cell) => {
    const s = cell.summary;
    const row = (node, sent) => ({ strategy: cell.strategy, workers: cell.workers, node, servers: s.servers, bytes_a_step: sent / steps(cell) });
    return [...(cell.workers > 1 || s.servers > 0 ? [row("worker", s.bytes_sent_per_worker)] : []), ...(s.servers > 0 ? [row("server", s.bytes_sent_per_server)] : [])];
  });
  return measured.filter((row) => row.bytes_a_step > 0);
}

// What theory asks of a node: a ring's worker sends 2 (N - 1) / N of the parameters, one server N times all of them.
function theory() {
  const size = (visible().find((cell) => cell.summary.parameter_bytes) ?? { summary: {} }).summary.parameter_bytes;
  if (!size) return [];
  const most = Math.max(...workerCounts());
  const counts = Array.from({ length: most }, (_, i) => i + 1);
  return [
    ...counts.map((n) => ({ line: "ring", workers: n, bytes_a_step: (2 * (n - 1) / n) * size })),
    ...(bytesRows().some((row) => row.node === "server") ? counts.map((n) => ({ line: "server", workers: n, bytes_a_step: n * size })) : []),
  ];
}

function drawBytes(rows, width) {
  const lined = theory();
  const names = [...new Set(rows.map((row) => row.strategy))];
  const ends = lined.filter((row) => row.workers === Math.max(...lined.map((r) => r.workers)));
  const label = { ring: "ring, 2(N−1)/N", server: "one server, N ×" };
  return Plot.plot({
    width, height: narrow(width) ? 260 : 300, marginTop: 30, marginLeft: 64, marginRight: narrow(width) ? 16 : 104, marginBottom: 40, insetLeft: 10, insetRight: 24,
    x: { label: "workers (N)", ...wholeTicks([...rows, ...lined], "workers") },
    y: { label: "sent a step", grid: true, ...byteTicks(Math.max(...[...rows, ...lined].map((row) => row.bytes_a_step))) },
    color: colors(), symbol: { domain: ["worker", "server"], range: ["circle", "square"] },
    marks: [
      Plot.lineY(lined, { x: "workers", y: "bytes_a_step", z: "line", stroke: "var(--quiet)", strokeDasharray: "5 4" }),
      narrow(width) ? Plot.text(ends, { x: "workers", y: "bytes_a_step", text: (row) => label[row.line], dx: -4, dy: -9, textAnchor: "end", fill: "var(--quiet)" })
                    : Plot.text(ends, { x: "workers", y: "bytes_a_step", text: (row) => label[row.line], dx: 28, textAnchor: "start", fill: "var(--quiet)" }),
      // Side by side: many strategies send the same.
      ...names.flatMap((name, i) => {
        const own = rows.filter((row) => row.strategy === name);
        const dx = (i - (names.length - 1) / 2) * 11;
        return [
          Plot.lineY(own, { x: "workers", y: "bytes_a_step", z: "node", stroke: "strategy", strokeWidth: 1.5, dx }),
          Plot.dot(own, { x: "workers", y: "bytes_a_step", stroke: "strategy", fill: "strategy", fillOpacity: 0.35, symbol: "node", r: 5, strokeWidth: 2, dx }),
        ];
      }),
      Plot.tip(rows, Plot.pointer({ x: "workers", y: "bytes_a_step", title: (row) => `${row.strategy}, ${row.workers} workers\na ${row.node} sends ${bytes(row.bytes_a_step)} a step`, fill: "var(--card)" })),
    ],
  });
}

function scheduleRows() {
  const cell = selected();
  if (!cell || !cell.schedules) return [];
  let before = 0;
  return cell.schedules.flatMap((schedule) => {
    const rows = (schedule.rounds ?? []).flatMap((round, k) => round.map((t) => ({
      operation: schedule.operation, algorithm: schedule.algorithm, round: before + k + 1, from: t.from, to: t.to,
      first: t.first, count: t.count, combine: t.combine,
    })));
    before += (schedule.rounds ?? []).length;
    return rows;
  });
}

function drawSchedule(rows, width) {
  const world = selected().workers;
  const rounds = Math.max(...rows.map((row) => row.round));
  const firsts = [...new Set(rows.map((row) => row.first))].sort((a, b) => a - b);
  const elements = Math.max(...rows.map((row) => row.first + row.count));
  const name = (rank) => `rank ${rank}`;
  const ranks = Array.from({ length: world }, (_, r) => r);
  // Several arrows between two ranks leave side by side.
  const place = (row) => row.round - 0.36 + (firsts.indexOf(row.first) / Math.max(1, firsts.length)) * 0.2;
  return Plot.plot({
    width, height: world * 52 + 40, marginLeft: 58, marginRight: 16, marginTop: 30, marginBottom: 4,
    x: { domain: [0.5, rounds + 0.5], axis: null },
    y: { domain: ranks, type: "point", padding: 0.5, label: null, tickFormat: name, tickSize: 0 },
    color: { type: "ordinal", domain: firsts, range: palette },
    marks: [
      Plot.text(Array.from({ length: rounds }, (_, k) => k + 1), { x: (k) => k, frameAnchor: "top", dy: -18, text: (k) => (width / rounds < 72 && k > 1 ? `${k}` : `round ${k}`), fill: "var(--quiet)" }),
      Plot.ruleY(ranks, { y: (rank) => rank, stroke: "var(--line)", strokeWidth: 8, strokeLinecap: "round" }),
      Plot.ruleX(Array.from({ length: rounds - 1 }, (_, k) => k + 1.5), { stroke: "var(--line)", strokeDasharray: "2 4" }),
      ...[true, false].map((combine) => Plot.arrow(rows.filter((row) => row.combine === combine), {
        x1: place, x2: (row) => place(row) + 0.5, y1: "from", y2: "to", stroke: "first", strokeWidth: 2.4, headLength: 9, inset: 5,
        strokeDasharray: combine ? null : "5 4",
        title: (row) => `round ${row.round}: rank ${row.from} sends ${percent(row.count / elements, 0)} of the bucket to rank ${row.to}, which ${row.combine ? "adds it" : "takes it"}`,
      })),
    ],
  });
}

function stalenessRows() {
  return chosen().flatMap((cell) => {
    const histogram = cell.summary.staleness && cell.summary.staleness.histogram;
    if (!histogram) return [];
    const all = Object.values(histogram).reduce((a, b) => a + b, 0);
    return Object.entries(histogram).map(([versions, gradients]) => ({
      strategy: cell.strategy, workers: cell.workers, versions_behind: Number(versions), gradients, fraction: gradients / all, name: cell.strategy,
    }));
  });
}

function addExchange() {
  const section = addSection("exchange", "Exchange", "How gradients become parameters: what it costs of a step, what it sends, and in which order.");
  addFigure({
    section, id: "anatomy", title: "Anatomy of a step", wide: true, rows: anatomyRows, draw: drawAnatomy,
    note: "Mean over rank 0's steps. The upper bar is the worker's time, one after the other; the lower is the exchange, which may run behind the worker's compute.",
    keys: () => parts.map(([, text, color]) => [text, color]),
  });
  addFigure({
    section, id: "bytes", title: "Bytes a node sends", rows: bytesRows, draw: drawBytes,
    note: "Gradients and parameters that a node gave to others in a step. Circles: a worker; squares: a server; dashed: what theory asks for dense parameters.",
    keys: (rows) => keysOfStrategies(rows),
  });
  addFigure({
    section, id: "staleness", title: "Staleness of gradients", rows: stalenessRows,
    note: "How many versions of the parameters had been made between the one that a gradient was computed from and the one that it was applied to.",
    keys: keysOfStrategies,
    draw: (rows, width) => Plot.plot({
      width, height: narrow(width) ? 240 : 300, marginLeft: 52, marginBottom: 40,
      x: { label: "versions behind", tickFormat: "d", type: "band", domain: Array.from({ length: Math.max(...rows.map((r) => r.versions_behind)) + 1 }, (_, i) => i) },
      y: { label: "of gradients", grid: true, tickFormat: "%", domain: [0, 1] },
      fx: { label: null, domain: [...new Set(rows.map((row) => row.strategy))] },
      color: colors(),
      marks: [
        Plot.barY(rows, { x: "versions_behind", y: "fraction", fx: "strategy", fill: "strategy", rx: 3, title: (row) => `${row.strategy}: ${percent(row.fraction)} are ${row.versions_behind} behind` }),
        Plot.ruleY([0], { stroke: "var(--quiet)" }),
      ],
    }),
  });
  addFigure({
    section, id: "schedule", title: "Rounds of the exchange", wide: true, rows: scheduleRows, draw: drawSchedule,
    note: () => `${nameOf(selected())}: ${selected().schedules.map((s) => `${s.operation} by ${s.algorithm} (${s.reason})`).join(", then ")}. Each colour is a part of a bucket of ${bytes(selected().schedules[0].bytes)}; where an arrow is solid the part is added to what the rank has, where it is dashed it replaces it.`,
  });
}
