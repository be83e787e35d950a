#!/usr/bin/env python3
"""Runs PyTorch's own distributed tests with Gloo and with tutti, several at a time, and compares. For script/test-torch.

Each of --jobs workers is a pytorch_suite.py with folders of its own; it is given one test after the other, and replaced
after one that takes too long. What fails beside others is tried once more with the machine to itself, because some
tests hold time limits of a second; the outcome says so. Ends with 1 if Gloo passes a test that tutti does not.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_TO_START = 300
LEAST_TO_COMPARE = 70  # of the 86 that Gloo passes of torch 2.11; others skip themselves without a GPU


class Worker:
    """One pytorch_suite.py. A context manager; used by one thread."""

    alive = set()  # what is left to end when this program is interrupted

    def __init__(self, backend, world, log):
        self.folder = tempfile.mkdtemp(prefix="tutti-torch-")
        environment = {**os.environ, "BACKEND": backend, "WORLD_SIZE": str(world), "TEMP_DIR": self.folder,
                       "INIT_METHOD": f"file://{self.folder}/shared_init_file", "OMP_NUM_THREADS": "1",
                       "CUDA_VISIBLE_DEVICES": ""}  # its processes would outnumber the GPUs
        # A session of its own, so that the processes of a test that hangs can be ended with it.
        self.process = subprocess.Popen([sys.executable, str(HERE / "pytorch_suite.py")], env=environment, stderr=log,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        Worker.alive.add(self)
        self.unread = b""
        self.names = self.answer(SECONDS_TO_START)

    def answer(self, seconds):
        """The next answer, or None if none comes in time or any more."""
        until = time.monotonic() + seconds
        while b"\n" not in self.unread:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            if not some:
                return None
            self.unread += some
        line, self.unread = self.unread.split(b"\n", 1)
        return json.loads(line)

    def run(self, name, seconds):
        try:
            self.process.stdin.write(name.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.answer(seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        Worker.alive.discard(self)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


class Runs:
    """What is to be run, and what became of it: {(backend, world): {test: [outcome, why]}}. Thread-safe."""

    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.outcomes = {}
        self.done = 0
        self.total = 0

    def do(self, key, names, note=""):
        """Runs these tests of one backend and world, one after the other, in as many workers as that takes."""
        with open(self.options.out / f"{key[0]}-{key[1]}.log", "ab") as log:
            while True:
                with Worker(*key, log) as worker:
                    for name in iter(names, None):
                        began = time.monotonic()
                        outcome = worker.run(name, self.options.timeout)
                        self.record(key, name, outcome or ["failed", f"no answer in {self.options.timeout} s"], began, note)
                        if outcome is None:
                            break
                    else:
                        return

    def record(self, key, name, outcome, began, note):
        outcome[1] = (outcome[1] + note).strip()
        with self.lock:
            self.done += 1
            self.outcomes.setdefault(key, {})[name] = outcome
            why = outcome[1].splitlines()[-1:]
            print(f"{self.done:5d}/{self.total} {outcome[0]:8s}{time.monotonic() - began:6.1f} s  {key[0]:5s} {key[1]}  {name}"
                  f"  {''.join(why)}", flush=True)

    def failed(self):
        return [(key, name) for key, tests in sorted(self.outcomes.items()) for name, (outcome, _) in sorted(tests.items())
                if outcome == "failed"]


def run_in_parallel(runs, keys, names):
    """A worker stays with one backend and world, since it is started for them; queues are as long as each other."""
    waiting = {key: queue.SimpleQueue() for key in keys}
    for key in keys:
        for name in names:
            waiting[key].put(name)

    def next_name(key):
        try:
            return waiting[key].get_nowait()
        except queue.Empty:
            return None

    def work(first):
        for key in keys[first:] + keys[:first]:  # then helps with the others
            if not waiting[key].empty():
                runs.do(key, lambda key=key: next_name(key))

    threads = [threading.Thread(target=work, args=(i % len(keys),), daemon=True) for i in range(runs.options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def compare(outcomes, worlds, least):
    """Prints both sides; whether Gloo passes at least so many, and ours all that Gloo passes."""
    good = True
    for world in worlds:
        gloo, ours = outcomes.get(("gloo", world), {}), outcomes.get(("tutti", world), {})
        for name, results in [("gloo", gloo), ("tutti", ours)]:
            counts = {what: sum(1 for outcome, _ in results.values() if outcome == what)
                      for what in ["passed", "skipped", "failed"]}
            print(f"{world} processes, {name}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
        passed = sum(1 for outcome, _ in gloo.values() if outcome == "passed")
        if passed < least:
            good = False
            print(f"  gloo passes {passed}, and there should be {least} to compare with")
        for test in sorted(set(gloo) | set(ours)):
            theirs, mine = (results.get(test, ["missing", ""]) for results in (gloo, ours))
            if theirs[0] == "passed" and mine[0] != "passed":
                good = False
                print(f"  gloo passes, tutti does not ({mine[0]}): {test}\n{mine[1]}")
            elif mine[0] == "passed" and theirs[0] != "passed":
                print(f"  tutti passes, gloo does not ({theirs[0]}): {test}")
    return good


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for BACKEND-WORLD.json and .log")
    parser.add_argument("--jobs", type=int, default=1, help="tests at a time")
    parser.add_argument("--worlds", type=lambda text: [int(w) for w in text.split(",")], default="2,3")
    parser.add_argument("--timeout", type=float, default=150, help="seconds for one test")
    parser.add_argument("-k", dest="patterns", action="append", default=[], help="only tests with this in their name")
    return parser.parse_args()


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    keys = [(backend, world) for world in options.worlds for backend in ["gloo", "tutti"]]
    for key in keys:
        (options.out / f"{key[0]}-{key[1]}.log").unlink(missing_ok=True)
    # PyTorch's own limit comes first: it shows where each process is.
    os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = str(int(options.timeout * 0.8))
    with open(options.out / "names.log", "wb") as log, Worker("gloo", 2, log) as worker:
        if worker.names is None:
            sys.exit(f"pytorch_suite.py does not start: {(options.out / 'names.log').read_text()[-3000:]}")
        names = [n for n in worker.names
                 if not options.patterns or any(fnmatch.fnmatch(n, f"*{p}*") for p in options.patterns)]
    began = time.monotonic()
    runs = Runs(options)
    runs.total = len(names) * len(keys)
    run_in_parallel(runs, keys, names)
    if options.jobs > 1:
        again = runs.failed()
        runs.total += len(again)
        for key in keys:
            names = [name for k, name in again if k == key]
            if names:
                left = iter(names)
                runs.do(key, lambda left=left: next(left, None), "\n(the second try, alone: it failed beside other tests)")
    for (backend, world), tests in runs.outcomes.items():
        text = json.dumps(dict(sorted(tests.items())), indent=1)
        (options.out / f"{backend}-{world}.json").write_text(text)
    print(f"\n{runs.total} runs in {time.monotonic() - began:.0f} s, {options.jobs} at a time")
    least = 1 if options.patterns else LEAST_TO_COMPARE
    sys.exit(0 if compare(runs.outcomes, options.worlds, least) else 1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that workers are ended, too
    try:
        main()
    finally:
        for worker in list(Worker.alive):
            worker.__exit__()
