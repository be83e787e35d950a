#!/usr/bin/env python3
"""What can be tried of deploy/ without a cluster: the files say what the API asks for, and agree with each other; what a pod's
container runs takes its place by the variables that Kubernetes sets.

    deploy_test.py PROGRAM
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(sys.argv[1]).resolve()


def documents(name):
    return {d["kind"]: d for d in yaml.safe_load_all((HERE / name).read_text())}


def variables(container):
    return {v["name"]: v["value"] for v in container["env"]}


class Files(unittest.TestCase):
    def setUp(self):
        both = documents("indexed-job.yaml")
        self.service, self.job = both["Service"], both["Job"]
        self.pod = self.job["spec"]["template"]["spec"]
        self.worker = self.pod["containers"][0]

    def test_every_pod_of_the_job_has_a_rank(self):
        spec = self.job["spec"]
        self.assertEqual((self.job["apiVersion"], spec["completionMode"]), ("batch/v1", "Indexed"))
        self.assertEqual(spec["completions"], spec["parallelism"])
        self.assertEqual(variables(self.worker)["WORLD_SIZE"], str(spec["completions"]))
        self.assertIn(self.pod["restartPolicy"], ("Never", "OnFailure"))

    def test_rank_0_is_found_by_the_service(self):
        self.assertEqual(self.service["spec"]["clusterIP"], "None")
        self.assertEqual(self.service["spec"]["selector"], {"job-name": self.job["metadata"]["name"]})
        self.assertEqual(self.pod["subdomain"], self.service["metadata"]["name"])
        self.assertEqual(variables(self.worker)["MASTER_ADDR"], f"{self.job['metadata']['name']}-0.{self.service['metadata']['name']}")

    def test_the_secret_is_a_file_of_its_owner_alone(self):
        mounts = {m["name"]: m["mountPath"] for m in self.worker["volumeMounts"]}
        volumes = {v["name"]: v for v in self.pod["volumes"]}
        self.assertEqual(set(mounts), set(volumes))
        self.assertEqual(volumes["secret"]["secret"]["defaultMode"], 0o600)
        self.assertEqual(str(pathlib.PurePath(variables(self.worker)["TUTTI_SECRET_FILE"]).parent), mounts["secret"])

    def test_the_mpi_job_starts_a_process_a_slot(self):
        job = documents("mpijob.yaml")["MPIJob"]
        self.assertEqual(job["apiVersion"], "kubeflow.org/v2beta1")
        replicas = job["spec"]["mpiReplicaSpecs"]
        launcher = replicas["Launcher"]["template"]["spec"]["containers"][0]["args"]
        self.assertEqual(int(launcher[launcher.index("-np") + 1]), replicas["Worker"]["replicas"] * job["spec"]["slotsPerWorker"])
        recipe = (HERE / "Containerfile").read_text()
        for path in re.findall(r"/home/tutti/\.\w+", json.dumps(job)):
            self.assertIn(path, recipe)

    def test_the_recipe_installs_what_it_copies(self):
        for source in re.findall(r"^COPY (deploy/\S+)", (HERE / "Containerfile").read_text(), re.M):
            self.assertTrue((HERE.parent / source).exists(), source)


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
