#!/usr/bin/env python3
"""What can be tried of deploy/ without a cluster: what a pod's container runs takes its place by the variables that Kubernetes
sets. The files themselves are checked by files_test.py.

    deploy_test.py PROGRAM
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(sys.argv[1]).resolve()


class Entry(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.secret = self.folder / "secret"
        self.secret.write_bytes(os.urandom(32))
        self.secret.chmod(0o640)  # as a volume with fsGroup has it

    def start(self, index, *command):
        environment = dict(os.environ, JOB_COMPLETION_INDEX=str(index), WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="29517",
                           TUTTI_SECRET_FILE=str(self.secret), TMPDIR=str(self.folder))
        return subprocess.Popen([HERE / "entry", *map(str, command)], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, cwd=self.folder)

    def test_the_index_becomes_the_rank_and_the_secret_private(self):
        said, _ = self.start(1, "sh", "-c", 'echo $RANK $WORLD_SIZE $MASTER_ADDR; stat -c %a "$TUTTI_SECRET_FILE"; cmp "$TUTTI_SECRET_FILE" secret').communicate()
        self.assertEqual(said.split(), ["1", "2", "localhost", "600"])

    def test_pods_train_together(self):
        if "--secret-file" not in subprocess.run([PROGRAM, "train", "--help"], capture_output=True, text=True).stdout:
            self.skipTest("this build does not join a job by RANK and WORLD_SIZE")
        command = (PROGRAM, "train", "--data", "synthetic", "--strategy", "allreduce", "--steps", "4", "--no-evaluate", "--out", "run")
        pods = [self.start(index, *command) for index in (0, 1)]
        said = [pod.communicate(timeout=120)[0] for pod in pods]
        self.assertEqual([pod.returncode for pod in pods], [0, 0], said)
        summary = json.loads((self.folder / "run" / "summary.json").read_text())
        self.assertEqual(summary["replicas_sha256"], [summary["parameters_sha256"]] * 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
