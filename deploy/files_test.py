#!/usr/bin/env python3
"""The files of deploy/ say what the API asks for, and agree with each other. script/lint runs it; needs python3-yaml."""
import json
import pathlib
import re
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent


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

    def test_the_image_is_built_with_the_mpi_that_it_has(self):
        _, building, running = (HERE / "Containerfile").read_text().split("\nFROM ")
        self.assertIn("libopenmpi-dev", building)
        self.assertIn("openmpi-bin", running)


if __name__ == "__main__":
    unittest.main()
