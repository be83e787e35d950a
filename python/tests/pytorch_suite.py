#!/usr/bin/env python3
"""PyTorch's own distributed tests against one backend: writes what became of each as JSON. script/test-torch runs it.

    BACKEND=tutti WORLD_SIZE=2 pytorch_suite.py OUT.json [-k PATTERN ...]

The tests know the backends that come with PyTorch by name. A third one is let through as what Gloo is: it enters
DistTestCases, the suite's own table of what backends can do, and, because many tests compare names, the module is
loaded with `BACKEND != "gloo"` and the like widened by one name. One test expects DDP to log the backend's name, where
PyTorch logs "custom" for whatever did not come with it. Nothing else of the module is changed.
"""
import fnmatch
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import types
import unittest

if "TEMP_DIR" not in os.environ:  # the processes that a test spawns find it
    os.environ["TEMP_DIR"] = tempfile.mkdtemp(prefix="tutti-torch-")
    os.environ["INIT_METHOD"] = f"file://{os.environ['TEMP_DIR']}/shared_init_file"
BACKEND = os.environ["BACKEND"]

import torch
from torch.testing._internal.common_distributed import DistTestCases

NAME = "torch.testing._internal.distributed.distributed_test"


def load_suite():
    path = importlib.util.find_spec(NAME).origin
    source = pathlib.Path(path).read_text()
    if BACKEND != "gloo":
        __import__("tutti_torch")
        for feature in ["gpu", "cuda", "ddp", "subgroup", "plugin"]:
            DistTestCases.backend_feature[feature].add(BACKEND)
        source = re.sub(r'BACKEND != "gloo"', f'BACKEND not in ("gloo", "{BACKEND}")', source)
        source = re.sub(r'BACKEND == "gloo"', f'BACKEND in ("gloo", "{BACKEND}")', source)
        source = re.sub(r'available\(\{"gloo"\}\)', f'available({{"gloo", "{BACKEND}"}})', source)
        source = source.replace('get("backend_name"), dist.get_backend(group_id)', 'get("backend_name"), "custom"')
        source = re.sub(r"PROFILING_SUPPORTED_BACKENDS = \[\n", f'\\g<0>    "{BACKEND}",\n', source)
    global needs_gpu
    needs_gpu = {test for decorators, test in re.findall(r"((?:^        @.*\n(?:^         .*\n|^        \)\n)*)+)"
                                                        r"^        def (test_\w+)", source, re.MULTILINE)
                 if re.search(r"skip_if_(no_gpu|lt_x_gpu)", decorators)}
    module = types.ModuleType(NAME)
    module.__file__ = path
    sys.modules[NAME] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return module


needs_gpu = set()  # tests that only skip themselves where there is none, after their processes have started
suite = load_suite()


class Spawned(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()


class Recorder(unittest.TextTestResult):
    """What became of each test: {"name": ["passed" | "skipped" | "failed", why]}."""

    outcomes = {}

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def note(self, test, outcome, why=""):
        name = test.id().split(".")[-1]
        self.outcomes[name] = [outcome, why]
        print(f"{outcome:8s}{time.monotonic() - self.began:6.1f} s  {name}  {why.strip().splitlines()[-1:] or ''}",
              flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, err):
        self.note(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure


def main():
    out, patterns = sys.argv[1], [a for a in sys.argv[2:] if a != "-k"]
    names = unittest.TestLoader().getTestCaseNames(Spawned)
    chosen = [n for n in names if not patterns or any(fnmatch.fnmatch(n, f"*{p}*") for p in patterns)]
    if not torch.cuda.is_available():
        Recorder.outcomes.update({name: ["skipped", "needs GPUs"] for name in chosen if name in needs_gpu})
        chosen = [name for name in chosen if name not in needs_gpu]
    runner = unittest.TextTestRunner(resultclass=Recorder, verbosity=0, stream=open(os.devnull, "w"))
    runner.run(unittest.TestSuite(Spawned(name) for name in chosen))
    pathlib.Path(out).write_text(json.dumps(Recorder.outcomes, indent=1))


if __name__ == "__main__":
    main()
