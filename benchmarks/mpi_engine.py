#!/usr/bin/env python3
"""The engine mpi beside the MPI that it calls: `mpirun tutti bench allreduce --engine mpi` and benchmarks/openmpi_allreduce.cc,
which times MPI_Allreduce alone, with two processes of this host.

    benchmarks/mpi_engine.py [--rounds N] [--processes N] [--sizes 1K,...] [PROGRAM]

Both take turns, round by round; the ratio is the median over the rounds of one's time over the other's. Wants a quiet machine,
and mpicxx. Exits with 1 if a ratio is above 1.10.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
LIMIT = 1.10


def times(command):
    """Seconds by size."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
    assert all(row["verified"] for row in rows), rows
    return {row["bytes"]: row["seconds"] for row in rows}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rounds", type=int, default=15)
    flags.add_argument("--processes", type=int, default=2)
    flags.add_argument("--sizes", default="1K,4K,16K,64K,512K,4M,32M")
    flags.add_argument("program", nargs="?", default=str(HERE.parent / "build/release/tutti"))
    args = flags.parse_args()
    cores = len(os.sched_getaffinity(0))
    mpirun = ["mpirun", "-np", str(args.processes)]
    mpirun += ["--bind-to", "core"] if args.processes <= cores else ["--bind-to", "none", "--oversubscribe"]
    with tempfile.TemporaryDirectory() as folder:
        alone = folder + "/openmpi_allreduce"
        subprocess.run(["mpicxx", "-DOMPI_SKIP_MPICXX", "-std=c++20", "-O3", "-march=native", "-o", alone,
                        HERE / "openmpi_allreduce.cc"], check=True)
        rounds = []
        for _ in range(args.rounds):
            ours = times([*mpirun, args.program, "bench", "allreduce", "--engine", "mpi", "--sizes", args.sizes, "--json"])
            rounds.append((ours, times([*mpirun, alone, "--sizes", args.sizes])))
    kept = True
    print(f"{'bytes':>10} {'engine mpi, us':>15} {'MPI alone, us':>15} {'ratio':>7} {'of the rounds':>14} {'at most':>8}")
    for size in rounds[0][0]:
        ratios = sorted(ours[size] / theirs[size] for ours, theirs in rounds)
        ratio = statistics.median(ratios)
        kept = kept and ratio <= LIMIT
        ours, theirs = (1e6 * statistics.median(r[i][size] for r in rounds) for i in (0, 1))
        print(f"{size:>10} {ours:>15.2f} {theirs:>15.2f} {ratio:>7.3f} {f'{ratios[0]:.2f} to {ratios[-1]:.2f}':>14} {LIMIT:>8.2f}"
              f"  {'kept' if ratio <= LIMIT else 'MISSED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
