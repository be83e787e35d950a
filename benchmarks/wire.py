#!/usr/bin/env python3
"""What a tag on every frame costs: `tutti bench allreduce` of 26 MB over TCP with --wire auth beside --wire plain, between two
emulated hosts with a link of 10 Gbit/s (needs root) and on loopback.

    benchmarks/wire.py [--rounds N] [--iterations N] [--encrypt] [PROGRAM]

Plain and auth take turns, round by round; the cost is the median over the rounds of one's time over the other's. Wants a quiet
machine. Exits with 1 if a cost is above its limit.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

CASES = [  # name, flags, what auth may cost
    ("10 Gbit/s link", ["--emulate", "hosts=2,link=10gbit"], 0.05),
    ("loopback", ["--ranks", "2", "--transport", "tcp"], 0.20),
]


def seconds(program, flags, wire, iterations):
    command = [program, "bench", "allreduce", *flags, "--sizes", "26M", "--iterations", str(iterations), "--wire", wire, "--json"]
    (row,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert row["wire"] == wire and row["verified"], row
    return row["seconds"]


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rounds", type=int, default=15)
    flags.add_argument("--iterations", type=int, default=30)
    flags.add_argument("--encrypt", action="store_true", help="time --wire encrypt, too; it has no limit")
    flags.add_argument("program", nargs="?", default=str(pathlib.Path(__file__).parents[1] / "build/release/tutti"))
    args = flags.parse_args()
    wires = ["plain", "auth"] + ["encrypt"] * args.encrypt
    kept = True
    print(f"{'26 MB over':<16} {'wire':<8} {'ms':>8} {'cost':>8} {'of the rounds':>18} {'at most':>8}")
    for name, case, limit in CASES:
        times = {wire: [] for wire in wires}
        for _ in range(args.rounds):
            for wire in wires:
                times[wire].append(seconds(args.program, case, wire, args.iterations))
        for wire in wires:
            costs = sorted(t / plain - 1 for t, plain in zip(times[wire], times["plain"]))
            cost = statistics.median(costs)
            line = f"{name:<16} {wire:<8} {1e3 * statistics.median(times[wire]):>8.2f}"
            if wire != "plain":
                line += f" {cost:>8.1%} {f'{costs[0]:.1%} to {costs[-1]:.1%}':>18}"
            if wire == "auth":
                line += f" {limit:>8.0%}  {'kept' if cost <= limit else 'MISSED'}"
                kept = kept and cost <= limit
            print(line, flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
