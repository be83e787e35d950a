#!/usr/bin/env python3
"""PyTorch's own distributed tests against one backend. run_pytorch_suite.py starts it; script/test-torch starts that.

    BACKEND=tutti WORLD_SIZE=2 TEMP_DIR=/tmp/x INIT_METHOD=file:///tmp/x/init pytorch_suite.py

The first line on its output is a JSON list of all tests. Then, for each name on its input, it runs that test and
answers with a line of JSON, ["passed" | "skipped" | "failed", why]. What tests print goes to its error output.

The tests know the backends that come with PyTorch by name. A third one is let through as what Gloo is: it enters
DistTestCases, the suite's own table of what backends can do, and, because many tests compare names, the module is
loaded with `BACKEND != "gloo"` and the like widened by one name. One test expects DDP to log the backend's name, where
PyTorch logs "custom" for whatever did not come with it. Nothing else of the module is changed.
"""
import importlib.util
import json
import os
import pathlib
import re
import sys
import types
import unittest

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


class Forked(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    """Processes are forked, as PyTorch's own test_distributed_fork.py did: importing torch takes longer than a test."""

    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


def outcome_of(name):
    if name in needs_gpu and not torch.cuda.is_available():
        return ["skipped", "needs GPUs"]
    result = unittest.TestResult()
    test = Forked(name)
    test.run(result)
    if result.skipped:
        return ["skipped", result.skipped[0][1]]
    wrong = result.failures + result.errors
    return ["failed", wrong[0][1]] if wrong else ["passed", ""]


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    names = unittest.TestLoader().getTestCaseNames(Forked)
    print(json.dumps(names), file=answers)
    for line in sys.stdin:
        print(json.dumps(outcome_of(line.strip())), file=answers)


if __name__ == "__main__":
    main()
