#!/usr/bin/env python3
"""Turns the rounds of script/bench into tables, ratios and a verdict on each target.

    benchmarks/combine.py build/bench [--quick] [--write docs/benchmarks.md README.md]

Reads FOLDER/round-*/NAME.json. A cell is the median over rounds; a ratio is the quotient of two cells. Python's
standard library alone.
"""
import argparse
import glob
import json
import os
import platform
import re
import statistics
import sys
import time

KIB, MIB = 1 << 10, 1 << 20
BATCH = 128
WORKLOAD_BATCH = 32
NETWORKS = ["rnn-mnist", "vgg16", "resnet50-cifar"]


# ---- reading -------------------------------------------------------------------------------------------------------

def read_json(path):
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError as error:
            sys.exit(f"combine: {path}: {error}")


def read_allreduce(folder):
    """{(who, ranks, bytes): seconds}, and the files that hold a row that was not verified."""
    samples, unverified = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "round-*", "*.json"))):
        match = re.fullmatch(r"(tutti-shm|tutti-tcp|openmpi-shm|openmpi-tcp|gloo)-(\d+)\.json", os.path.basename(path))
        if not match:
            continue
        for row in read_json(path):
            if row["verified"] is not True:
                unverified.append(f"{path}: {row['bytes']} bytes")
            samples.setdefault((match[1], int(match[2]), row["bytes"]), []).append(row["seconds"])
    return {key: statistics.median(values) for key, values in samples.items()}, unverified


def median_step(run):
    return run["step_ms"]["median"] if isinstance(run["step_ms"], dict) else run["step_ms"]


def read_training(folder):
    """{(who, workers): {"step_ms", "steps_ms" of the rounds, "samples_per_second", "exposed_ms", "finite_check",
    "checkpoint_held"}}, samples/s from the median step for all; the check as a part of its own run's step, how long a
    checkpoint holds a step as a multiple of the copy's time."""
    samples = {}
    for path in sorted(glob.glob(os.path.join(folder, "round-*", "train-*.json"))):
        who, workers = re.fullmatch(r"train-(\w+)-(\d+)\.json", os.path.basename(path)).groups()
        run = read_json(path)
        check = run["finite_check_ms"] / median_step(run) if "finite_check_ms" in run else None
        held = run["checkpoint_hold_ms"] / run["checkpoint_copy_ms"] if run.get("checkpoint_copy_ms") else None
        samples.setdefault((who, int(workers)), []).append(
            (median_step(run), run.get("exposed_exchange_ms"), check, held))
    cells = {}
    for (who, workers), runs in samples.items():
        step = statistics.median(run[0] for run in runs)
        exposed = [run[1] for run in runs if isinstance(run[1], (int, float))]
        checks = [run[2] for run in runs if run[2] is not None]
        helds = [run[3] for run in runs if run[3] is not None]
        cells[who, workers] = {"step_ms": step, "steps_ms": [run[0] for run in runs],
                               "samples_per_second": workers * BATCH * 1000 / step,
                               "exposed_ms": statistics.median(exposed) if exposed else None,
                               "finite_check": statistics.median(checks) if checks else None,
                               "checkpoint_held": statistics.median(helds) if helds else None}
    return cells


def read_workloads(folder):
    """{(network, who): {"step_ms", "samples_per_second", "memory"}}, and where the networks are not the same."""
    samples, different = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "round-*", "workload-*.json"))):
        network, who = re.fullmatch(r"workload-(.+)-(\w+)\.json", os.path.basename(path)).groups()
        samples.setdefault((network, who), []).append(read_json(path))
    cells = {}
    for (network, who), runs in samples.items():
        step = statistics.median(median_step(run) for run in runs)
        cells[network, who] = {"step_ms": step, "samples_per_second": WORKLOAD_BATCH * 1000 / step,
                               "memory": statistics.median(max(run["peak_memory_bytes"]) for run in runs)}
    for network in {network for network, _ in samples}:
        bytes_of = {run["parameter_bytes"] for who in ("tutti", "torch") for run in samples.get((network, who), [])}
        if len(bytes_of) > 1:
            different.append(f"{network}: parameters of {sorted(bytes_of)} bytes")
    return cells, different


def read_emulated(folder):
    """{(who, hosts, bytes): row}, each of median seconds, and the files that hold a row that was not verified."""
    samples, unverified = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "round-*", "emulated-*.json"))):
        who, hosts = re.fullmatch(r"emulated-(\w+)-(\d+)\.json", os.path.basename(path)).groups()
        for row in read_json(path):
            if row["verified"] is not True:
                unverified.append(f"{path}: {row['bytes']} bytes")
            samples.setdefault((who, int(hosts), row["bytes"]), []).append(row)
    medians = {key: {"seconds": statistics.median(row["seconds"] for row in rows),
                     "bound": statistics.median(row.get("bound_seconds", 0) for row in rows)}
               for key, rows in samples.items()}
    return medians, unverified


def read_modes(folder):
    """{(network, mode): [median milliseconds of a step, by round]}"""
    samples = {}
    for path in sorted(glob.glob(os.path.join(folder, "round-*", "mode-*.json"))):
        network, mode = re.fullmatch(r"mode-(.+)-(\w+)\.json", os.path.basename(path)).groups()
        samples.setdefault((network, mode), []).append(median_step(read_json(path)))
    return samples


# ---- targets -------------------------------------------------------------------------------------------------------

def allreduce_target(text, ours, theirs, ranks, wanted, sizes):
    def measure(cells, *_):
        ratios = {size: cells[theirs, ranks, size] / seconds for (who, n, size), seconds in cells.items()
                  if (who, n) == (ours, ranks) and sizes(size) and (theirs, ranks, size) in cells}
        return min(ratios.items(), key=lambda item: item[1]) if ratios else None

    def say(found):
        return f"{found[1]:.2f} (worst, at {size_name(found[0])})"

    return {"text": text, "wanted": wanted, "measure": measure, "value": lambda found: found[1], "say": say}


def training_target(text, ours, theirs, wanted):
    def measure(_, cells, *__):
        if ours not in cells or theirs not in cells:
            return None
        return cells[ours]["samples_per_second"] / cells[theirs]["samples_per_second"]

    return {"text": text, "wanted": wanted, "measure": measure, "value": lambda found: found, "say": "{:.2f}".format}


def heartbeat_target(text, ours, theirs, wanted):
    """The median of the rounds' ratios: both ran at the same time in each."""
    def measure(_, cells, *__):
        if ours not in cells or theirs not in cells:
            return None
        return statistics.median(b / a for a, b in zip(cells[ours]["steps_ms"], cells[theirs]["steps_ms"]))

    return {"text": text, "wanted": wanted, "measure": measure, "value": lambda found: found, "say": "{:.3f}".format}


def finite_check_target(text, ours):
    """A hundredth of a step over what the check takes of it."""
    def measure(_, cells, *__):
        check = cells.get(ours, {}).get("finite_check")
        return 0.01 / check if check else None

    return {"text": text, "wanted": 1.0, "measure": measure, "value": lambda found: found,
            "say": lambda found: f"{found:.2f} ({1 / found:.2f} % of a step)"}


def checkpoint_target(text, ours):
    """What copying takes, over what a checkpoint holds a step."""
    def measure(_, cells, *__):
        held = cells.get(ours, {}).get("checkpoint_held")
        return 1 / held if held else None

    return {"text": text, "wanted": 0.95, "measure": measure, "value": lambda found: found, "say": "{:.3f}".format}


def workload_target(text, ratio):
    """The worst of the networks."""
    def measure(*parts):
        cells = parts[2]
        ratios = {network: ratio(cells[network, "tutti"], cells[network, "torch"]) for network in NETWORKS
                  if (network, "tutti") in cells and (network, "torch") in cells}
        return min(ratios.items(), key=lambda item: item[1]) if ratios else None

    def say(found):
        return f"{found[1]:.2f} (worst, `{found[0]}`)"

    return {"text": text, "wanted": 1.0, "measure": measure, "value": lambda found: found[1], "say": say}


def emulated_target(text, wanted, ratio):
    """The worst over hosts and sizes."""
    def measure(*parts):
        cells = parts[3]
        ratios = {(hosts, size): ratio(cell, cells["gloo", hosts, size]) for (who, hosts, size), cell in cells.items()
                  if who == "tutti" and ("gloo", hosts, size) in cells}
        return min(ratios.items(), key=lambda item: item[1]) if ratios else None

    def say(found):
        return f"{found[1]:.2f} (worst, {found[0][0]} hosts, {size_name(found[0][1])})"

    return {"text": text, "wanted": wanted, "measure": measure, "value": lambda found: found[1], "say": say}


def mode_target(network, wanted):
    """The median of the rounds' ratios: both modes ran one after the other in each."""
    def measure(*parts):
        ours, theirs = (parts[4].get((network, mode)) for mode in ("reproducible", "default"))
        return statistics.median(b / a for a, b in zip(ours, theirs)) if ours and theirs else None

    text = f"`--reproducible`, `{network}`, 2 workers, 8 shards, global batch 256: the default mode's samples/s"
    return {"text": text, "wanted": wanted, "measure": measure, "value": lambda found: found, "say": "{:.2f}".format}


def replica_check_target(network, every, wanted):
    """What a check at every step adds to a step, a share of it as they would come every so many."""
    def measure(*parts):
        checked, default = (parts[4].get((network, mode)) for mode in ("checked", "default"))
        if not checked or not default:
            return None
        return 1 / (1 + (statistics.median(a / b for a, b in zip(checked, default)) - 1) / every)

    text = (f"`--check-replicas {every}`, `{network}`, 2 workers, global batch 256: the default mode's samples/s, "
            "reckoned from a check at every step")
    return {"text": text, "wanted": wanted, "measure": measure, "value": lambda found: found, "say": "{:.5f}".format}


def speed_ratio(ours, theirs):
    return ours["samples_per_second"] / theirs["samples_per_second"]


def memory_ratio(ours, theirs):
    return theirs["memory"] / ours["memory"]


def from_512k_to_32m(size):
    return 512 * KIB <= size <= 32 * MIB


TARGETS = [
    allreduce_target("all-reduce, 2 ranks, shared memory, 512 KB to 32 MB: Open MPI's bandwidth", "tutti-shm",
                     "openmpi-shm", 2, 2.5, from_512k_to_32m),
    allreduce_target("all-reduce, 2 ranks, shared memory, below 64 KB: Open MPI's speed", "tutti-shm", "openmpi-shm",
                     2, 1.0, lambda size: size < 64 * KIB),
    allreduce_target("all-reduce, 2 ranks, shared memory, every size: Gloo's bandwidth", "tutti-shm", "gloo", 2, 5.0,
                     lambda size: True),
    allreduce_target("all-reduce, 4 ranks, shared memory, from 512 KB: Open MPI's bandwidth", "tutti-shm",
                     "openmpi-shm", 4, 2.0, lambda size: size >= 512 * KIB),
    allreduce_target("all-reduce, 4 ranks, shared memory, 1 KB: Open MPI's speed", "tutti-shm", "openmpi-shm", 4, 1.0,
                     lambda size: size == KIB),
    allreduce_target("all-reduce, 4 ranks, TCP on loopback, 1 KB: Open MPI's speed", "tutti-tcp", "openmpi-tcp", 4,
                     1.0, lambda size: size == KIB),
    allreduce_target("all-reduce, 2 ranks, TCP on loopback, below 64 KB: Open MPI's speed", "tutti-tcp", "openmpi-tcp", 2,
                     1.0, lambda size: size < 64 * KIB),
    allreduce_target("all-reduce, 2 ranks, TCP on loopback, from 512 KB: Open MPI's bandwidth", "tutti-tcp",
                     "openmpi-tcp", 2, 1.3, lambda size: size >= 512 * KIB),
    training_target("training, 1 process: PyTorch eager's samples/s", ("tutti", 1), ("torch", 1), 1.25),
    training_target("training, `allreduce`, 2 workers: PyTorch DDP with Gloo's samples/s", ("tutti", 2), ("torch", 2),
                    1.6),
    training_target("training, `allreduce`, 2 workers: our own samples/s with 1", ("tutti", 2), ("tutti", 1), 1.85),
    finite_check_target("training, `allreduce`, 2 workers: 1 % of a step, over the check for NaN and infinities",
                        ("tutti", 2)),
    heartbeat_target("training, many small operators: our own samples/s without heartbeats", ("beating", 1),
                     ("quiet", 1), 0.99),
    checkpoint_target("training, a checkpoint every 5 steps: copying's share of the time that a step waits",
                      ("saving", 2)),
    workload_target("larger networks, 1 process: PyTorch eager's samples/s", speed_ratio),
    workload_target("larger networks, 1 process: PyTorch eager's peak memory, over ours", memory_ratio),
    mode_target("mnist-cnn", 0.9),
    mode_target("resnet50-cifar", 0.8),
    mode_target("lstm-lm", 0.8),
    replica_check_target("mnist-cnn", 100, 0.99),
    emulated_target("ring, emulated hosts at 1 Gbit/s: what the links allow", 0.95,
                    lambda ours, _: ours["bound"] / ours["seconds"]),
    emulated_target("ring, emulated hosts at 1 Gbit/s: Gloo's speed", 1.0,
                    lambda ours, gloo: gloo["seconds"] / ours["seconds"]),
]


def judge(*measured):
    rows = []
    for target in TARGETS:
        found = target["measure"](*measured)
        if found is not None:
            verdict = "reached" if target["value"](found) >= target["wanted"] else "MISSED"
            rows.append([target["text"], f"{target['wanted']:.2f}", target["say"](found), verdict])
    return rows


# ---- tables --------------------------------------------------------------------------------------------------------

def size_name(size):
    return f"{size // MIB} MB" if size >= MIB else f"{size // KIB} KB" if size >= KIB else f"{size} B"


def table(header, rows):
    """Markdown that also reads well on a terminal: text to the left, numbers to the right."""
    columns = list(zip(header, *rows))
    widths = [max(len(cell) for cell in column) for column in columns]
    left = [not any(re.match(r"[\d.]", cell) for cell in column[1:]) for column in columns]

    def line(cells):
        return "| " + " | ".join(c.ljust(w) if l else c.rjust(w) for c, w, l in zip(cells, widths, left)) + " |"

    rule = "|" + "|".join("-" * (w + 2) if l else "-" * (w + 1) + ":" for w, l in zip(widths, left)) + "|"
    return "\n".join([line(header), rule, *map(line, rows)])


def allreduce_table(cells, ranks):
    sizes = sorted({size for _, n, size in cells if n == ranks})

    def speed(who, size):
        seconds = cells.get((who, ranks, size))
        return "-" if seconds is None else f"{seconds * 1e6:.1f} us, {size / seconds / 1e9:.2f}"

    def ratio(ours, theirs, size):
        pair = cells.get((ours, ranks, size)), cells.get((theirs, ranks, size))
        return "-" if None in pair else f"{pair[1] / pair[0]:.2f}"

    rows = [[size_name(size), speed("tutti-shm", size), speed("openmpi-shm", size),
             ratio("tutti-shm", "openmpi-shm", size), speed("gloo", size), ratio("tutti-shm", "gloo", size),
             speed("tutti-tcp", size), speed("openmpi-tcp", size), ratio("tutti-tcp", "openmpi-tcp", size)]
            for size in sizes]
    return table(["bytes", "tutti shm", "Open MPI shm", "ratio", "Gloo", "ratio", "tutti tcp", "Open MPI tcp",
                  "ratio"], rows)


def training_table(cells):
    names = {("tutti", 1): "tutti `local`, 1 process", ("torch", 1): "PyTorch eager, 1 process",
             ("tutti", 2): "tutti `allreduce`, 2 workers", ("torch", 2): "PyTorch DDP with Gloo, 2 processes"}
    rows = []
    for key, name in names.items():
        if key in cells:
            cell = cells[key]
            exposed = "-" if cell["exposed_ms"] is None else f"{cell['exposed_ms']:.2f}"
            rows.append([name, f"{cell['step_ms']:.1f}", f"{cell['samples_per_second']:.0f}", exposed])
    return table(["who", "step, ms", "samples/s", "exposed exchange, ms"], rows)


def workload_table(cells):
    rows = []
    for network in NETWORKS:
        pair = cells.get((network, "tutti")), cells.get((network, "torch"))
        if None in pair:
            continue
        rows.append([f"`{network}`", *(f"{cell['step_ms']:.1f}" for cell in pair),
                     *(f"{cell['samples_per_second']:.1f}" for cell in pair), f"{speed_ratio(*pair):.2f}",
                     *(f"{cell['memory'] / MIB:.0f}" for cell in pair), f"{memory_ratio(*pair):.2f}"])
    return table(["network", "tutti, ms", "eager, ms", "tutti, samples/s", "eager, samples/s", "ratio",
                  "tutti, peak MB", "eager, peak MB", "ratio"], rows)


def emulated_table(cells):
    rows = []
    for hosts, size in sorted({key[1:] for key in cells}):
        ours, gloo = cells.get(("tutti", hosts, size)), cells.get(("gloo", hosts, size))
        if ours and gloo:
            rows.append([str(hosts), size_name(size), f"{ours['seconds'] * 1e3:.1f}", f"{gloo['seconds'] * 1e3:.1f}",
                         f"{100 * ours['bound'] / ours['seconds']:.1f} %", f"{100 * ours['bound'] / gloo['seconds']:.1f} %",
                         f"{gloo['seconds'] / ours['seconds']:.2f}"])
    return table(["hosts", "bytes", "tutti ring, ms", "Gloo, ms", "tutti, of the bound", "Gloo, of the bound", "ratio"],
                 rows)


def machine():
    name = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} cores, {name}, Linux {platform.release().split('-')[0]}"


def compose(folder, quick):
    allreduce, unverified = read_allreduce(folder)
    training = read_training(folder)
    workloads, different = read_workloads(folder)
    emulated, not_summed = read_emulated(folder)
    unverified += not_summed
    modes = read_modes(folder)
    if not (allreduce or training or workloads or emulated or modes):
        sys.exit(f"combine: no rounds in {folder}")
    rounds = len(glob.glob(os.path.join(folder, "round-*")))
    fewer = len({os.path.dirname(path) for path in glob.glob(os.path.join(folder, "round-*", "workload-*.json"))})
    parts = [f"Measured {time.strftime('%Y-%m-%d')}: {machine()}; medians over {rounds} "
             f"{'round' if rounds == 1 else 'rounds'}{' of a quick run, no measurement' if quick else ''}"
             f"{f' ({fewer} of larger networks)' if 0 < fewer < rounds else ''}."]
    for ranks in sorted({n for _, n, _ in allreduce}):
        parts += [f"All-reduce of float32, {ranks} ranks on this host: time of one, and bandwidth in GB/s",
                  allreduce_table(allreduce, ranks)]
    if training:
        parts += ["Training, `mnist-cnn`, batch 128 a process, one thread a process, Adam", training_table(training)]
    if workloads:
        parts += [f"Larger networks, 32x32 or 28x28, batch {WORKLOAD_BATCH}, 1 process, one thread, SGD with momentum: "
                  "tutti `local` beside PyTorch eager", workload_table(workloads)]
    if emulated:
        parts += ["All-reduce of float32 on emulated hosts, links of 1 Gbit/s each way", emulated_table(emulated)]
    targets = table(["tutti, as a multiple of", "at least", "measured", "verdict"],
                    judge(allreduce, training, workloads, emulated, modes))
    parts += ["Targets", targets]
    if unverified:
        parts.append("NOT VERIFIED: " + "; ".join(unverified))
    if different:
        parts.append("NOT THE SAME NETWORK: " + "; ".join(different))
    return "\n\n".join(parts), parts[0] + "\n\n" + targets, unverified + different


def write_block(path, text):
    """Replaces what stands between the markers of `path`."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    new, count = re.subn(r"(<!-- bench:begin -->\n).*?(<!-- bench:end -->)", lambda m: m[1] + text + "\n" + m[2], page,
                         flags=re.S)
    if count != 1:
        sys.exit(f"combine: {path} has no <!-- bench:begin --> ... <!-- bench:end -->")
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--quick", action="store_true", help="say in the text that this was a quick run")
    parser.add_argument("--write", nargs=2, metavar=("FULL", "SHORT"), help="pages to rewrite between their markers")
    options = parser.parse_args()
    full, short, doubts = compose(options.folder, options.quick)
    print(full)
    if options.write:
        write_block(options.write[0], full)
        write_block(options.write[1], short)
    sys.exit(1 if doubts else 0)


if __name__ == "__main__":
    main()
