#!/usr/bin/env python3
"""Tests of the backend tutti, on every transport, with processes of its own. Exits with 77 where torch is absent.

The checks of checks.py run in one set of processes for each transport and world size, because starting torch takes
longer than most of them; each has a process group of its own, so that a failure stays with it.
"""
import datetime
import json
import os
import pathlib
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("SKIPPED: this Python has no torch")
    sys.exit(77)

import tutti_torch
import checks

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = datetime.timedelta(seconds=20)
# No GPU: PyTorch's PowerSGD would wait for one, although no tensor is on it.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def join(arguments, timeout=TIMEOUT):
    dist.init_process_group("tutti", init_method=f"file://{arguments['store']}", rank=arguments["rank"],
                            world_size=arguments["world"], timeout=timeout)


def expect_transport(transport=None):
    """In a process whose group has exchanged something: it was over what the test says that it tests."""
    transport = transport or os.environ["TUTTI_TRANSPORT"]
    if transport != "auto":
        checks.expect(checks.shares_memory() == (transport == "shm"), "the transport is not", transport)


def run_checks(arguments):
    """All checks, on one rank; what failed goes to a file, by name."""
    join(arguments)
    failures = {}
    for check in checks.CHECKS:
        try:
            check(checks.Group(dist.new_group(timeout=TIMEOUT), arguments.get("on_hosts", False)))
        except Exception as e:  # noqa: BLE001
            failures[check.__name__] = f"rank {arguments['rank']}: {type(e).__name__}: {e}"
    pathlib.Path(arguments["out"]).write_text(json.dumps(failures))
    dist.barrier()
    dist.destroy_process_group()


def lose_a_peer(arguments):
    """The last rank is killed in the middle; the others must learn which it was, at once."""
    join(arguments)
    dist.all_reduce(torch.ones(10))
    expect_transport()
    last = arguments["world"] - 1
    if arguments["rank"] == last:
        os.kill(os.getpid(), signal.SIGKILL)
    count = arguments["count"]
    with checks.raises(f"rank {last} was lost"):
        dist.all_reduce(torch.ones(count))
    with checks.raises(f"rank {last} was lost"):
        dist.recv(torch.ones(count), last)
    os._exit(0)  # destroying the group is none of this test


def join_alone(arguments):
    with checks.raises("rank 1"):
        join(arguments, datetime.timedelta(seconds=1))


def ask_for_a_public_secret(arguments):
    with checks.raises("TUTTI_SECRET_FILE", "has mode 0644"):
        join(arguments)


def sum_once(arguments, transport=None):
    """Over this transport, or over the one that was asked for."""
    join(arguments)
    tensor = torch.ones(10)
    dist.all_reduce(tensor)
    expect_transport(transport)
    checks.expect_equal(tensor, torch.full((10,), float(arguments["world"])))
    dist.barrier()
    dist.destroy_process_group()


def sum_without_shared_memory(arguments):
    """The first cannot make any, so all use TCP."""
    if arguments["rank"] == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
    sum_once(arguments, "tcp")


def join_again_through_the_same_store(arguments):
    """What the first group has left in the store is not taken for the second's. (Made by hand, because the
    store's own barrier of torch 1.13 does not work twice.)"""
    store = dist.FileStore(arguments["store"], arguments["world"])
    for _ in range(3):
        group = tutti_torch._C.create(store, arguments["rank"], arguments["world"], TIMEOUT)
        tensor = torch.ones(1000)
        group.allreduce([tensor]).wait()
        expect_transport()
        checks.expect_equal(tensor, torch.full((1000,), float(arguments["world"])))
        group.barrier().wait()
        del group


def use_it_after_the_end(arguments):
    join(arguments)
    work = dist.all_reduce(torch.ones(10), async_op=True)
    work.wait()
    dist.destroy_process_group()
    work.wait()
    checks.expect(work.is_completed(), "the work")


def start(function, world, ranks=None, transport="auto", **more):
    """The processes' exit codes and, by rank, what they wrote to $out."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **ENVIRONMENT, "TUTTI_TRANSPORT": transport, **more.pop("environment", {})}
        processes, outs = [], []
        for rank in ranks or range(world):
            outs.append(pathlib.Path(folder) / f"out-{rank}")
            processes.append(subprocess.Popen(command_of(function, rank, world, folder, outs[-1], **more),
                                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        try:
            texts = [process.communicate(timeout=200)[0].decode() for process in processes]
        finally:
            for process in processes:
                process.kill()  # nothing where it has ended
        codes = [process.returncode for process in processes]
        return codes, texts, [out.read_text() if out.exists() else None for out in outs]


def command_of(function, rank, world, folder, out, **more):
    arguments = {"rank": rank, "world": world, "store": folder + "/store", "out": str(out), **more}
    return [sys.executable, __file__, function.__name__, json.dumps(arguments)]


def be_a_host(arguments):
    """Its ranks, on one of several emulated hosts."""
    here = [subprocess.Popen(command) for command in arguments["commands"][int(os.environ["RANK"])]]
    sys.exit(max(abs(process.wait()) for process in here))


def start_on_hosts(function, hosts, **more):
    """As start(); `hosts` has the ranks of each."""
    with tempfile.TemporaryDirectory() as folder:
        world = sum(map(len, hosts))
        outs = [pathlib.Path(folder) / f"out-{rank}" for rank in range(world)]
        commands = [[command_of(function, rank, world, folder, outs[rank], **more) for rank in host] for host in hosts]
        run = subprocess.run([os.environ["TUTTI_PROGRAM"], "emulate", f"hosts={len(hosts)},link=10gbit", "--",
                              sys.executable, __file__, "be_a_host", json.dumps({"commands": commands})],
                             env={**os.environ, **ENVIRONMENT, "TUTTI_TRANSPORT": "auto"}, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=300)
        texts = [run.stdout.decode()] * world
        return [run.returncode] * world, texts, [out.read_text() if out.exists() else None for out in outs]


class Backend(unittest.TestCase):
    def expect_success(self, codes, texts):
        for rank, (code, text) in enumerate(zip(codes, texts)):
            self.assertEqual(code, 0, f"rank {rank}: {text}")

    def test_a_lost_peer_is_named(self):
        for transport in ["shm", "tcp"]:
            for count in [10, 1_000_000]:
                with self.subTest(transport=transport, count=count):
                    codes, texts, _ = start(lose_a_peer, 2, transport=transport, count=count)
                    self.expect_success(codes[:-1], texts[:-1])
                    self.assertEqual(codes[-1], -signal.SIGKILL)

    def test_a_missing_rank_is_named(self):
        codes, texts, _ = start(join_alone, 2, ranks=[0])
        self.expect_success(codes, texts)

    def test_a_secret_may_come_from_a_file_that_others_cannot_read(self):
        with tempfile.NamedTemporaryFile("w") as secret:
            secret.write("a secret of more than sixteen bytes")
            secret.flush()
            environment = {"TUTTI_SECRET_FILE": secret.name}
            os.chmod(secret.name, stat.S_IRUSR | stat.S_IWUSR)
            codes, texts, _ = start(sum_once, 2, transport="tcp", environment=environment)
            self.expect_success(codes, texts)
            os.chmod(secret.name, 0o644)
            codes, texts, _ = start(ask_for_a_public_secret, 2, transport="tcp", environment=environment)
            self.expect_success(codes, texts)

    def test_a_store_serves_one_group_after_the_other(self):
        for transport in ["shm", "tcp"]:
            with self.subTest(transport=transport):
                self.expect_success(*start(join_again_through_the_same_store, 2, transport=transport)[:2])

    def test_all_do_without_memory_that_the_first_cannot_make(self):
        self.expect_success(*start(sum_without_shared_memory, 2)[:2])

    def test_handles_outlive_their_group(self):
        self.expect_success(*start(use_it_after_the_end, 2)[:2])


class Documented(unittest.TestCase):
    def accuracy_of_horovods_program(self, *flags):
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        # As torchrun starts them; Debian's own, of 1.13, does not run under its Python 3.11.
        runs = [subprocess.Popen([sys.executable, str(ROOT / "examples/horovod_mnist.py"),
                                  "--epochs", "1", "--samples", "12000", "--batch", "32", "--lr", "0.03", *flags],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 env={**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": "2",
                                      "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})
                for rank in range(2)]
        texts = [run.communicate(timeout=200)[0].decode() for run in runs]
        for run, text in zip(runs, texts):
            self.assertEqual(run.returncode, 0, text[-3000:])
        return float(re.search(r"epoch 1: accuracy ([0-9.]+)", texts[0]).group(1))

    def test_horovods_program_translated_trains(self):
        self.assertGreater(self.accuracy_of_horovods_program(), 0.5)  # a tenth by chance

    def test_horovods_program_translated_trains_in_half_precision(self):
        self.assertGreater(self.accuracy_of_horovods_program("--fp16-allreduce"), 0.5)

    def test_the_first_lines_of_the_page_run(self):
        page = (ROOT / "docs/in-pytorch.md").read_text()
        snippet = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            program.write(snippet + "print(torch.distributed.get_backend(), torch.distributed.get_world_size())\n")
            program.flush()
            run = subprocess.run([sys.executable, program.name], capture_output=True, text=True, timeout=100,
                                 env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost",
                                      "MASTER_PORT": "0"})
        self.assertEqual(run.stdout.split(), ["tutti", "1"], run.stderr[-3000:])


def add_checks(name, start_all, why_not=""):
    """A test for each check of one set of processes, which the first of them starts; skipped where `why_not` says why."""
    results = []

    def failures():
        if not results:
            try:
                results.append(start_all())
            except Exception as e:  # noqa: BLE001  (it would be the same again for each test)
                results.append(e)
        if isinstance(results[0], Exception):
            raise AssertionError(f"the processes could not be run to their end: {results[0]}")
        codes, texts, outs = results[0]
        for code, text, out in zip(codes, texts, outs):
            if out is None or code != 0:
                raise AssertionError(f"a process ended with {code}: {text[-3000:]}")
        return [json.loads(out) for out in outs]

    def make(name):
        def test(self):
            found = [of_rank[name] for of_rank in failures() if name in of_rank]
            self.assertFalse(found, "\n".join(found))
        return test

    tests = type(name, (unittest.TestCase,),
                 {"test_" + check.__name__: make(check.__name__) for check in checks.CHECKS})
    globals()[name] = unittest.skipIf(why_not, why_not)(tests)


for world in [2, 3]:
    for transport in ["shm", "tcp"]:
        add_checks(f"On_{transport}_with_{world}",
                   lambda world=world, transport=transport: start(run_checks, world, transport=transport))
add_checks("On_two_hosts", lambda: start_on_hosts(run_checks, [[0, 2], [1, 3]], on_hosts=True),
           why_not="only root may make networks" if os.geteuid() != 0 else
           "TUTTI_PROGRAM does not say where tutti is" if "TUTTI_PROGRAM" not in os.environ else "")

if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].startswith("{"):
        globals()[sys.argv[1]](json.loads(sys.argv[2]))
    else:
        unittest.main(verbosity=2)
