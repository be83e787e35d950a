#!/usr/bin/env python3
"""Gloo's all-reduce (torch.distributed), timed the way `tutti bench allreduce` times ours.

Starts its own ranks on this host, or is one of them where RANK and WORLD_SIZE say so (`tutti emulate`). Every iteration refills the buffer with small integers that depend on rank,
iteration and position, so that the sum is exact and a stale result cannot pass; then barrier, clock, all-reduce in
place, clock, and a check of every element. The time of an iteration is that of its slowest rank. Prints the same rows
as `tutti bench allreduce --json`. docs/benchmarks.md defines the metrics.
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

SECONDS_PER_SIZE = 0.5
FEWEST_ITERATIONS = 10
MOST_ITERATIONS = 2000
WARM_UPS = 3
PATTERN = 64


def parse_size(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


class Bench:
    """One rank's buffer of one size."""

    def __init__(self, rank, world, size):
        self.rank, self.world, self.count = rank, world, size // 4
        self.buffer = torch.empty(self.count)
        # f(rank, iteration, i) = (i + 13 iteration + 5 rank) mod 64 is a window of one saw-tooth.
        self.saw = (torch.arange(self.count + PATTERN) % PATTERN).float()
        self.good = True

    def values(self, rank, iteration):
        first = (13 * iteration + 5 * rank) % PATTERN
        return self.saw[first:first + self.count]

    def iterate(self, iteration):
        self.buffer.copy_(self.values(self.rank, iteration))
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(self.buffer)
        seconds = time.perf_counter() - start
        expected = sum(self.values(r, iteration) for r in range(self.world))
        self.good = self.good and torch.equal(self.buffer, expected)
        return seconds

    def choose_iterations(self):
        start = time.perf_counter()
        for k in range(WARM_UPS):
            self.iterate(-1 - k)
        each = torch.tensor([(time.perf_counter() - start) / WARM_UPS])
        dist.broadcast(each, 0)
        return min(MOST_ITERATIONS, max(FEWEST_ITERATIONS, int(SECONDS_PER_SIZE / each.item())))


def measure(rank, world, size, iterations):
    bench = Bench(rank, world, size)
    chosen = bench.choose_iterations()
    iterations = iterations or chosen
    seconds = torch.tensor([bench.iterate(k) for k in range(iterations)], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    good = torch.tensor([1 if bench.good else 0])
    dist.all_reduce(good, op=dist.ReduceOp.MIN)
    return {"bytes": size, "seconds": statistics.median(seconds.tolist()), "ranks": world, "transport": "gloo",
            "algorithm": "default", "iterations": iterations, "verified": good.item() == 1}


def run_rank(rank, options, meeting):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    if options.pin and options.ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=options.ranks)
    rows = [measure(rank, options.ranks, size, options.iterations) for size in options.sizes]
    if rank == 0:
        print(json.dumps(rows, indent=1))
    dist.barrier()
    dist.destroy_process_group()
    if not all(row["verified"] for row in rows):
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda text: [parse_size(s) for s in text.split(",")],
                        default="1K,16K,64K,512K,4M,32M")
    parser.add_argument("--iterations", type=int, default=0, help="0: as many as fit in half a second")
    parser.add_argument("--pin", action="store_true",
                        help="one core a rank; off by default, because Gloo's own thread then shares it")
    options = parser.parse_args()
    if "RANK" in os.environ:
        options.ranks = int(os.environ["WORLD_SIZE"])
        run_rank(int(os.environ["RANK"]), options, "env://")
        return
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_rank, args=(options, "file://" + os.path.join(folder, "store")), nprocs=options.ranks)


if __name__ == "__main__":
    main()
