#!/usr/bin/env python3
"""The program, and a program on the library, in processes that MPICH's mpiexec has started. Neither needs MPICH itself:
they meet through PMI.

    under_hydra_test.py BUILD_FOLDER

Exits with 77 where there is no mpiexec.hydra (Debian: mpich).
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
program, example = build / "tutti", build / "examples/from_scratch"
hydra = shutil.which("mpiexec.hydra")
if hydra is None:
    print("there is no mpiexec.hydra (Debian: mpich)")
    sys.exit(77)


def run(processes, *command, code=0):
    done = subprocess.run([hydra, "-n", str(processes), *map(str, command)], capture_output=True, text=True, timeout=240)
    assert (done.returncode == 0) == (code == 0), (command, done.returncode, done.stdout, done.stderr)
    return done


def processes_of(path):
    """Of a program, by its path."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "exe") == str(path):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


with tempfile.TemporaryDirectory() as folder:
    for processes, flags in ((3, []), (3, ["--transport", "tcp"]), (4, ["--strategy", "ps-sync", "--servers", "2"])):
        out = pathlib.Path(folder) / "-".join(["run", *flags]).replace("-", "_")
        run(processes, program, "train", "--data", "synthetic", "--steps", "8", "--no-evaluate", "--out", out, *flags)
        summary = json.loads((out / "summary.json").read_text())
        assert set(summary["replicas_sha256"]) == {summary["parameters_sha256"]}, summary
        assert len(summary["replicas_sha256"]) == (2 if "ps-sync" in flags else processes), summary
    print(run(2, program, "bench", "allreduce", "--sizes", "1K", "--iterations", "3").stdout)
    print(run(3, example, "ring").stdout)
    run(2, program, "train", "--strategy", "nonsense", code=2)

    # One that is killed ends all of them, and nothing is left.
    before = set(processes_of(program))
    out = pathlib.Path(folder) / "killed"
    job = subprocess.Popen([hydra, "-n", "3", program, "train", "--data", "synthetic", "--epochs", "100", "--no-evaluate",
                            "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (out / "metrics.jsonl").exists() or (out / "metrics.jsonl").read_text().count('"event":"step"') < 3:
        assert job.poll() is None, job.stderr.read()
    os.kill(sorted(set(processes_of(program)) - before)[1], signal.SIGKILL)
    job.communicate(timeout=60)
    assert job.returncode != 0
    assert not set(processes_of(program)) - before
