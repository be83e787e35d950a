#!/usr/bin/env python3
"""The program on a real SLURM of two nodes, and the snippets of the pages that need one. script/test-cluster runs it:

    on_slurm_test.py SOURCE PROGRAM [unittest arguments]
"""
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest

import slurm_fixture
import snippets_test

SOURCE, PROGRAM = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
# Small enough for two cores, and real: data, network and optimizer are what they are elsewhere.
TRAIN = ("train", "--data", "synthetic", "--batch", "8", "--no-evaluate")
SRUN = ("srun", "--mpi=pmi2")
# The same places for all of them, or sums would be formed in another order: SLURM fills a node first unless told otherwise.
FOUR = ("--nodes=2", "--ntasks-per-node=2")
SECONDS_OF_WORK = 45  # more than SLURM lets one round of a minute have, see test_time_limit...


def setUpModule():
    global slurm
    slurm = slurm_fixture.Slurm(PROGRAM)


def tearDownModule():
    slurm.end()


class OnSlurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run(self, result=None):
        failures = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > failures:
            print(slurm.last_words(), flush=True)

    def summary(self, run="run"):
        return json.loads((self.folder / run / "summary.json").read_text())

    def expect_equal_replicas(self, workers, run="run"):
        summary = self.summary(run)
        self.assertEqual([summary["parameters_sha256"]] * workers, summary["replicas_sha256"], run)

    def steps_made(self):
        metrics = self.folder / "run" / "metrics.jsonl"
        return metrics.read_text().count('"event":"step"') if metrics.exists() else 0

    def undisturbed(self, *flags):
        """The parameters of the same run without a limit or a signal."""
        slurm.run(*SRUN, *FOUR, PROGRAM, *TRAIN, *flags, "--out", "undisturbed", cwd=self.folder)
        return self.summary("undisturbed")["parameters_sha256"]

    def ranks(self):
        """Process ids of the job's tasks, by rank."""
        found = {}
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and (process / "exe").resolve() == PROGRAM:
                    variables = (process / "environ").read_bytes().split(b"\0")
                    rank = next(v for v in variables if v.startswith(b"SLURM_PROCID="))
                    found[int(rank.partition(b"=")[2])] = int(process.name)
            except (OSError, StopIteration):  # it has ended, or is none of SLURM's
                pass
        return found

    def end_of(self, job):
        """Its last state, and how often it was queued again."""
        def shown():
            return re.search(r"JobState=(\S+).*Restarts=(\d+)", slurm.run("scontrol", "show", "job", job), re.S).groups()
        slurm.wait_until(lambda: shown()[0] in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"),
                         f"job {job} has ended")
        state, restarts = shown()
        return state, int(restarts)

    def test_four_tasks_on_two_nodes_train_under_every_strategy_that_keeps_step(self):
        for strategy, workers in (("allreduce", 4), ("ring", 4), ("reduce-broadcast", 4), ("ps-sync", 3)):
            slurm.run(*SRUN, *FOUR, PROGRAM, *TRAIN, "--steps", "6", "--strategy", strategy, "--out", "run",
                      "--overwrite", cwd=self.folder)
            self.expect_equal_replicas(workers)
            self.assertEqual(self.summary()["config"]["transport"], "tcp", "the nodes are two hosts")

    def test_tasks_without_pmi_meet_by_a_secret_in_a_file(self):
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        slurm.run("srun", *FOUR, PROGRAM, *TRAIN, "--steps", "6", "--secret-file", secret, "--out", "run",
                  cwd=self.folder)
        self.expect_equal_replicas(4)

    def test_tasks_of_one_node_share_memory(self):
        slurm.run("srun", "-N1", "-n2", PROGRAM, *TRAIN, "--steps", "6", "--out", "run", cwd=self.folder)
        self.expect_equal_replicas(2)
        self.assertEqual(self.summary()["config"]["transport"], "shm")

    def test_killed_task_ends_the_step_and_is_named(self):
        with (self.folder / "printed").open("w") as printed:
            srun = slurm.start(*SRUN, *FOUR, PROGRAM, *TRAIN, "--steps", "100000", "--out", "run",
                               cwd=self.folder, output=printed)
        slurm.wait_until(lambda: self.steps_made() >= 3 or srun.poll() is not None, "three steps")
        ranks = self.ranks()
        self.assertEqual(sorted(ranks), [0, 1, 2, 3], (self.folder / "printed").read_text())
        os.kill(ranks[2], signal.SIGKILL)
        self.assertNotEqual(srun.wait(slurm_fixture.DEADLINE), 0)
        words = (self.folder / "printed").read_text()
        self.assertRegex(words, r"tutti: .*rank 2", "by a rank that missed it")
        self.assertRegex(words, r"task 2: Killed", "by SLURM")
        self.assertEqual(self.ranks(), {}, "nothing is left")

    def test_signal_to_the_step_saves_and_the_run_goes_on_to_the_same_bits(self):
        # Each rank has batch norm's figures of its own, which are parts of the checkpoint.
        flags = ("--model", "mobilenetv2-cifar", "--steps", "24", "--lr", "0.001")
        expected = self.undisturbed(*flags)
        command = (*SRUN, *FOUR, PROGRAM, *TRAIN, *flags, "--out", "run", "--resume", "auto")
        with (self.folder / "printed").open("w") as printed:
            srun = slurm.start(*command, cwd=self.folder, output=printed)
        slurm.wait_until(lambda: self.steps_made() >= 2 or srun.poll() is not None, "two steps")
        job = slurm.run("squeue", "--noheader", "--format=%i").strip()
        slurm.run("scancel", "--signal=TERM", job)  # to all tasks; srun itself would end them at once
        self.assertEqual(srun.wait(slurm_fixture.DEADLINE), 143, (self.folder / "printed").read_text())
        self.assertFalse((self.folder / "run" / "summary.json").exists())
        slurm.run(*command, cwd=self.folder)
        self.assertEqual(self.summary()["parameters_sha256"], expected)
        slurm.run(PROGRAM, "ckpt", "diff", "undisturbed/checkpoints/step-24", "run/checkpoints/step-24", cwd=self.folder)

    def test_time_limit_saves_requeues_and_the_job_ends_with_the_same_bits(self):
        """SLURM looks at limits twice a minute, and sends its signal at the first look that is less than half a minute
        (and the 25 s) before the end: 5 to 35 s after the job has begun."""
        self.undisturbed("--steps", "40")
        steps = max(100, int(SECONDS_OF_WORK * 1000 / self.summary("undisturbed")["step_ms"]["median"]))
        expected = self.undisturbed("--steps", str(steps), "--overwrite")
        words = slurm.run(PROGRAM, "slurm", "--nodes", "2", "--ntasks-per-node", "2", "--time", "1", "--signal-before", "25",
                          "--submit", "--", *TRAIN, "--steps", str(steps), "--out", "run", cwd=self.folder)
        job, log = re.fullmatch(r"job (\d+) is queued\nits log is (\S+)\n", words).groups()
        state, restarts = self.end_of(job)
        log = pathlib.Path(log).read_text()
        self.assertEqual(state, "COMPLETED", log)
        self.assertGreaterEqual(restarts, 1, log)
        self.assertIn("goes on", log)
        self.expect_equal_replicas(4)
        self.assertEqual(self.summary()["parameters_sha256"], expected, log)

    def test_cancelled_job_saves_and_is_not_queued_again(self):
        words = slurm.run(PROGRAM, "slurm", "--nodes", "2", "--ntasks-per-node", "1", "--submit", "--", *TRAIN,
                          "--steps", "100000", "--out", "run", cwd=self.folder)
        job = re.match(r"job (\d+)", words)[1]
        slurm.wait_until(lambda: self.steps_made() >= 3, "three steps")
        slurm.run("scancel", job)
        self.assertEqual(self.end_of(job), ("CANCELLED", 0))
        self.assertEqual(self.ranks(), {}, "nothing is left")
        self.assertTrue(list((self.folder / "run" / "checkpoints").glob("step-*")), "it has saved")

    def test_snippets_of_the_pages_run(self):
        pages = [(page.name, snippets_test.snippets_of(page.name, page.read_text())) for page in (SOURCE / "docs").glob("*.md")]
        marked = [s for _, snippets in pages for s in snippets if s.mark == "slurm"]
        self.assertEqual({s.page for s in marked}, {"on-slurm.md", "joining.md"})
        for snippet in marked:
            slurm.run("bash", "-euc", snippet.text, cwd=self.folder)
        slurm.wait_until(lambda: not slurm.run("squeue", "--noheader").strip(), "all jobs have ended")
        self.expect_equal_replicas(4, "runs/four")
        self.expect_equal_replicas(4, "runs/two")
        self.expect_equal_replicas(2, "run-slurm")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
