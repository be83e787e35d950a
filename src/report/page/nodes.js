// What each process of one run took of its host, over time.

const selected = () => report.cells[state.cell];
const nodeColors = (rows) => {
  const names = [...new Set(rows.map((row) => row.node))];
  return { domain: names, range: names.map((_, i) => palette[i % palette.length]) };
};
const nodeName = (node) => `${node.role} ${node.rank}`;

// Differences of neighbouring samples, as something a second.
function rates(node, counter, of = (value) => value) {
  return node.seconds.slice(1).map((seconds, i) => ({
    seconds, value: of((counter[i + 1] - counter[i]) / (seconds - node.seconds[i])),
  })).filter((row, i) => Number.isFinite(row.value) && counter[i] !== null && counter[i + 1] !== null && node.seconds[i + 1] - node.seconds[i] > 0.05);
}

const nodes = () => (selected() && selected().nodes) || [];

const cpuRows = () => nodes().flatMap((node) => rates(node, node.cpu_seconds, (v) => v / node.cores).map((row) => ({ node: nodeName(node), seconds: row.seconds, cpu: row.value })));
const memoryRows = () => nodes().flatMap((node) => node.seconds.map((seconds, i) => ({ node: nodeName(node), seconds, bytes: node.resident_bytes[i] })));

// Processes of one host see the same counters: each host's are drawn once.
function networkRows(counters) {
  const hosts = new Map();
  for (const node of nodes()) hosts.set(node.network, [...(hosts.get(node.network) ?? []), node]);
  return [...hosts.values()].flatMap((sharing) => {
    const host = hosts.size > 1 ? sharing.map(nodeName).join(", ") + ": " : "";
    return Object.entries(sharing[0].interfaces).flatMap(([name, series]) => counters
      .filter((counter) => series[counter[0]] && (name !== "lo" || counter[1] === "out"))
      .flatMap(([counter, direction]) => rates(sharing[0], series[counter]).map((row) => ({
        node: `${host}${name}${name === "lo" ? "" : `, ${direction}`}`, seconds: row.seconds, value: row.value,
      }))));
  }).filter((row, _, all) => all.some((other) => other.node === row.node && other.value > 0));
}

// GPUs of a machine are everybody's there: the first process's samples are drawn.
const gpuRows = (key) => (nodes()[0]?.gpus ?? []).flatMap((gpu, g) => gpu[key].map((value, i) => ({ node: `GPU ${g}`, seconds: nodes()[0].seconds[i], value })))
  .filter((row) => row.value !== null);

// `yOptions` is given the largest value.
function overTime(section, id, title, note, rows, y, yLabel, yOptions, format) {
  addFigure({
    section, id, title, note, rows,
    keys: (all) => { const c = nodeColors(all); return c.domain.map((name, i) => [name, c.range[i]]); },
    draw: (all, width) => lines(all, width, {
      x: "seconds", y, z: "node", stroke: "node", points: false, color: nodeColors(all), xLabel: "seconds", yLabel,
      yOptions: { zero: true, ...yOptions(Math.max(...all.map((row) => row[y]))) }, format: (row) => `${row.node}\n${number(row.seconds, 1)} s: ${format(row)}`,
    }),
  });
}

function addNodes() {
  const section = addSection("nodes", "Nodes", "Sampled every 200 ms inside each process of the run that is chosen above, from its start to its end: training, evaluation and checkpoints.");
  overTime(section, "cpu", "Processor", "Time on processors, as a part of the cores that the process may use.", cpuRows, "cpu", "of its cores", () => ({ tickFormat: "%" }), (row) => percent(row.cpu, 0));
  overTime(section, "memory", "Memory", "Resident memory of the process, with what it shares.", memoryRows, "bytes", "resident", byteTicks, (row) => bytes(row.bytes));
  if (report.cells.some((cell) => cell.nodes?.some((node) => node.gpus?.length))) {
    overTime(section, "gpu", "GPU", "The part of the time in which each GPU of the machine computed, for anybody.", () => gpuRows("utilisation"), "value", "of the time", () => ({ tickFormat: "%" }), (row) => percent(row.value, 0));
    overTime(section, "gpu-memory", "GPU memory", "Allocated on each GPU of the machine, by anybody.", () => gpuRows("memory_bytes"), "value", "allocated", byteTicks, (row) => bytes(row.value));
  }
  overTime(section, "network-bytes", "Network, bytes", "Bytes through the interfaces of the process's host, of everything that runs there. Gradients in shared memory do not pass here.",
    () => networkRows([["tx_bytes", "out"], ["rx_bytes", "in"]]), "value", "a second", byteTicks, (row) => `${bytes(row.value)}/s`);
  overTime(section, "network-packets", "Network, packets", "Packets through the same interfaces.",
    () => networkRows([["tx_packets", "out"], ["rx_packets", "in"]]), "value", "packets/s", () => ({ tickFormat: "~s" }), (row) => `${whole.format(row.value)} packets/s`);
}
