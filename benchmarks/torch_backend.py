#!/usr/bin/env python3
"""The backend tutti beside Gloo, through torch.distributed, as a PyTorch user calls them.

    torch_backend.py                     all-reduce of several sizes, and DistributedDataParallel, 2 processes
    torch_backend.py --only allreduce --sizes 1K,4M --ranks 4

All-reduce: both backends live in the same processes, as groups, and take turns, so that both see the same machine.
Every iteration fills the buffer anew, then barrier, clock, all-reduce in place, clock, and a check of every element;
the time of an iteration is that of its slowest rank, and the median counts.
Training: one process, then several that exchange nothing (what this machine can give at most), then as many with each
backend, in turns; one thread a process; random input that is already in memory. Prints tables, and JSON with --json.
docs/benchmarks.md defines the metrics.

Two processes have limits, which stand beside what was measured: all-reduce of 1 KB is at least 20 times as fast as
Gloo's, of 4 MB 8 times, and the MNIST network under DDP reaches 1.85 times the samples/s of one process. Ends with 1 if
one is missed.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti_torch  # noqa: F401
from networks import NETWORKS

BACKENDS = ["tutti", "gloo"]
ALONE, APART = "one process", "no exchange"
SECONDS_PER_SIZE = 1.0
FEWEST, MOST = 20, 3000
# What two processes must reach.
TIMES_GLOO = {1 << 10: 20, 4 << 20: 8}  # by bytes
TIMES_ONE_PROCESS = {"mnist-cnn": 1.85}


def parse_size(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def pin(rank, options):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    if options.pin and options.ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})


def time_all_reduce(buffer, rank, iteration, group):
    buffer.fill_(rank + iteration % 7)
    dist.barrier(group=group)
    start = time.perf_counter()
    dist.all_reduce(buffer, group=group)
    seconds = time.perf_counter() - start
    world = dist.get_world_size()
    if not torch.all(buffer == world * (world - 1) / 2 + world * (iteration % 7)):
        raise RuntimeError("a sum is wrong")
    return seconds


def measure_all_reduce(rank, size, groups):
    buffer = torch.empty(size // 4)
    pilot = max(max(time_all_reduce(buffer, rank, k, g) for k in range(3)) for g in groups.values())
    pilot = torch.tensor([pilot])
    dist.all_reduce(pilot, dist.ReduceOp.MAX)
    iterations = min(MOST, max(FEWEST, int(SECONDS_PER_SIZE / pilot.item())))
    seconds = {name: [] for name in groups}
    for turn in range(4):  # interleaved
        for name, group in groups.items():
            seconds[name] += [time_all_reduce(buffer, rank, k, group) for k in range(iterations // 4 + 1)]
    slowest = {}
    for name, times in seconds.items():
        times = torch.tensor(times, dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX)
        slowest[name] = statistics.median(times.tolist())
    return {**slowest, "ratio": slowest["gloo"] / slowest["tutti"]}


def run_all_reduce(rank, options, store):
    pin(rank, options)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks)
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    rows = [{"bytes": size, **measure_all_reduce(rank, size, groups)} for size in options.sizes]
    if rank == 0:
        with open(store + ".json", "w") as out:
            json.dump(rows, out)
    dist.barrier()
    dist.destroy_process_group()


def train(network, options):
    """The median step, in seconds."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.001)
    loss_of = nn.CrossEntropyLoss()
    images = torch.rand(8, options.batch, *NETWORKS[options.network].image)
    labels = torch.randint(NETWORKS[options.network].classes, (8, options.batch))
    seconds = []
    for step in range(5 + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_of(network(images[step % 8]), labels[step % 8]).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return seconds[5:]


def run_training(rank, options, name, store):
    pin(rank, options)
    torch.manual_seed(1)
    network = NETWORKS[options.network].make()
    processes = options.ranks if name != ALONE else 1
    dist.init_process_group(name if name in BACKENDS else "gloo", init_method=f"file://{store}", rank=rank,
                            world_size=processes)
    if name in BACKENDS:
        network = DistributedDataParallel(network)
    dist.barrier()
    seconds = torch.tensor(train(network, options), dtype=torch.float64)
    # Steps are in time with each other where gradients are exchanged; where not, only their median compares.
    slowest = seconds if name in BACKENDS else seconds.median()
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        with open(store + ".json", "w") as out:
            json.dump(slowest.median().item(), out)


def spawn(function, arguments, processes):
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        mp.spawn(function, args=(*arguments, store), nprocs=processes)
        with open(store + ".json") as out:
            return json.load(out)


def measure_training(options):
    medians = {name: [] for name in [ALONE, APART, *BACKENDS]}
    for _ in range(options.repeats):
        for name, found in medians.items():
            found.append(spawn(run_training, (options, name), 1 if name == ALONE else options.ranks))
    single = options.batch / statistics.median(medians[ALONE])
    rows = []
    for name, found in medians.items():
        processes = 1 if name == ALONE else options.ranks
        rate = processes * options.batch / statistics.median(found)
        rows.append({"backend": name, "processes": processes, "samples_per_second": rate, "speedup": rate / single})
    return rows


def judge(result, options):
    """Each row that has a limit gets it, and whether it is reached; returns whether all are."""
    limited = []
    if options.ranks == 2:
        limited += [(row, row["ratio"], TIMES_GLOO[row["bytes"]])
                    for row in result.get("allreduce", []) if row["bytes"] in TIMES_GLOO]
        limited += [(row, row["speedup"], TIMES_ONE_PROCESS[options.network])
                    for row in result.get("training", [])
                    if row["backend"] == "tutti" and options.network in TIMES_ONE_PROCESS]
    for row, figure, limit in limited:
        row.update(limit=limit, reached=figure >= limit)
    return all(row["reached"] for row, _, _ in limited)


def beside(row):
    if "limit" not in row:
        return ""
    return f"  (at least {row['limit']:g}: {'reached' if row['reached'] else 'MISSED'})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["allreduce", "training"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda text: [parse_size(s) for s in text.split(",")],
                        default="1K,16K,64K,512K,4M,32M")
    parser.add_argument("--network", choices=NETWORKS, default="mnist-cnn")
    parser.add_argument("--batch", type=int, default=128, help="samples a step and process")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3, help="of each training")
    parser.add_argument("--pin", action="store_true", help="one core a process; Gloo's own thread then shares it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {"torch": torch.__version__, "ranks": options.ranks}
    if options.only != "training":
        result["allreduce"] = spawn(run_all_reduce, (options,), options.ranks)
    if options.only != "allreduce":
        result["training"] = measure_training(options)
    reached = judge(result, options)
    if options.json:
        print(json.dumps(result, indent=1))
        return 0 if reached else 1
    print(f"torch {result['torch']}, {options.ranks} processes")
    for row in result.get("allreduce", []):
        print(f"all-reduce {row['bytes']:>10} bytes: tutti {row['tutti'] * 1e6:9.1f} us,"
              f" gloo {row['gloo'] * 1e6:9.1f} us, ratio {row['ratio']:6.1f}{beside(row)}")
    for row in result.get("training", []):
        print(f"{options.network}, {row['backend']:11}: {row['samples_per_second']:8.0f} samples/s,"
              f" {row['speedup']:.2f} times one process{beside(row)}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
