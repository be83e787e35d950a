#!/usr/bin/env python3
"""The engine mpi beside the MPI that it calls: `mpirun tutti bench allreduce --engine mpi` and benchmarks/openmpi_allreduce.cc,
which times MPI_Allreduce alone, with two processes of this host. The latter twice: by itself, in a process without threads; and
as the engine must call it, in a process with threads and after a barrier that can be given up (--as-engine).

    benchmarks/mpi_engine.py [--rounds N] [--processes N] [--sizes 1K,...] [PROGRAM]

All take turns, round by round; a ratio is the median over the rounds of one's time over the other's. Wants a quiet machine, and
mpicxx. Exits with 1 if a ratio to MPI under the same conditions is above 1.10.
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
            alike, by_itself = (times([*mpirun, alone, "--sizes", args.sizes, *flag]) for flag in (["--as-engine"], []))
            rounds.append((ours, alike, by_itself))
    kept = True
    print(f"{'bytes':>10} {'engine, us':>11} {'MPI alike':>10} {'ratio':>6} {'of the rounds':>14} {'MPI by itself':>14} {'ratio':>6}")
    for size in rounds[0][0]:
        ours, alike, by_itself = (1e6 * statistics.median(r[i][size] for r in rounds) for i in range(3))
        ratios, wide = (sorted(r[0][size] / r[i][size] for r in rounds) for i in (1, 2))
        ratio = statistics.median(ratios)
        kept = kept and ratio <= LIMIT
        print(f"{size:>10} {ours:>11.2f} {alike:>10.2f} {ratio:>6.2f} {f'{ratios[0]:.2f} to {ratios[-1]:.2f}':>14} "
              f"{by_itself:>14.2f} {statistics.median(wide):>6.2f}  {'kept' if ratio <= LIMIT else 'MISSED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
