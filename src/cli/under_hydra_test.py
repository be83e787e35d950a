#!/usr/bin/env python3
"""The program, and a program on the library, in processes that MPICH's mpiexec has started. Neither needs MPICH itself:
they meet through PMI. script/test-cluster runs it:

    under_hydra_test.py BUILD_FOLDER [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
PROGRAM, EXAMPLE = BUILD / "tutti", BUILD / "examples/from_scratch"
HYDRA = shutil.which("mpiexec.hydra")
SECONDS = 240  # for any command
TRAIN = ("train", "--data", "synthetic", "--no-evaluate")


def processes_of(path):
    """Of a program, by its path."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "exe") == str(path):
                found.add(int(entry.name))
        except OSError:
            pass
    return found


class UnderHydra(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "run"

    def run_of(self, processes, *command, code=0):
        done = subprocess.run([HYDRA, "-n", str(processes), *map(str, command)], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode == 0, code == 0, (command, done.returncode, done.stdout, done.stderr))
        return done

    def expect_equal_replicas(self, workers):
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertEqual([summary["parameters_sha256"]] * workers, summary["replicas_sha256"])

    def train(self, processes, *flags, before=()):
        self.run_of(processes, *before, PROGRAM, *TRAIN, "--steps", "8", "--out", self.out, *flags)

    def test_processes_train_to_equal_replicas(self):
        for flags in ((), ("--transport", "tcp")):
            self.train(3, "--overwrite", *flags)
            self.expect_equal_replicas(3)

    def test_the_last_of_them_are_servers(self):
        self.train(4, "--strategy", "ps-sync", "--servers", "2")
        self.expect_equal_replicas(2)

    def test_those_that_have_ranks_and_no_descriptor_train_too(self):
        """As launchers start them that speak another PMI than we do."""
        self.train(3, before=("env", "-u", "PMI_FD"))
        self.expect_equal_replicas(3)

    def test_bench_measures_among_them(self):
        self.assertIn("1024", self.run_of(2, PROGRAM, "bench", "allreduce", "--sizes", "1K", "--iterations", "3").stdout)

    def test_a_program_on_the_library_joins(self):
        self.assertIn("3 processes, accuracy", self.run_of(3, EXAMPLE, "ring").stdout)

    def test_what_is_wrong_ends_all(self):
        for command in (("train", "--strategy", "nonsense"), ("bench", "allreduce", "--algorithm", "nonsense")):
            self.assertEqual(self.run_of(2, PROGRAM, *command, code=2).stderr.count("tutti: "), 1)

    def test_one_that_is_killed_ends_all_and_nothing_is_left(self):
        before = processes_of(PROGRAM)
        job = subprocess.Popen([HYDRA, "-n", "3", PROGRAM, *TRAIN, "--epochs", "100", "--out", self.out],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        metrics = self.out / "metrics.jsonl"
        while not metrics.exists() or metrics.read_text().count('"event":"step"') < 3:
            self.assertIsNone(job.poll(), "it has ended")
            time.sleep(0.05)  # only so that this does not take a core from them
        os.kill(sorted(processes_of(PROGRAM) - before)[1], signal.SIGKILL)
        job.communicate(timeout=SECONDS)
        self.assertNotEqual(job.returncode, 0)
        self.assertEqual(processes_of(PROGRAM) - before, set())


if __name__ == "__main__":
    if HYDRA is None:
        sys.exit("there is no mpiexec.hydra (Debian: mpich)")
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
