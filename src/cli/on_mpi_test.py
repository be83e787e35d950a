#!/usr/bin/env python3
"""Runs the commands of docs/on-mpi.md, in a folder of their own.

    on_mpi_test.py SOURCE PROGRAM
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source, program = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
blocks = re.findall(r"^```sh\n(.*?)^```", (source / "docs/on-mpi.md").read_text(), re.S | re.M)
assert len(blocks) == 2, f"docs/on-mpi.md has {len(blocks)} blocks of commands"
environment = dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}", OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
with tempfile.TemporaryDirectory() as folder:
    for block in blocks:
        subprocess.run(["bash", "-euc", block], cwd=folder, env=environment, check=True)
    for run in ("run-allreduce", "run-servers", "run-mpi"):
        assert (pathlib.Path(folder) / run / "summary.json").exists(), run
