#!/usr/bin/env python3
"""Tensors of a GPU through the backend tutti, two processes on one GPU. Exits with 77, and says so, where there is none.

    PYTHONPATH=... python3 python/tests/cuda_checks.py
"""
import copy
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import tutti_torch  # noqa: F401
from checks import LARGE, SMALL, expect, expect_equal

WORLD = 2


def values(rank, count):
    return (torch.arange(count, dtype=torch.float32) % 5 + rank).cuda()


def reductions(rank):
    for count in [SMALL, LARGE]:
        whole = values(0, count) + values(1, count)
        tensor = values(rank, count)
        dist.all_reduce(tensor)
        expect_equal(tensor, whole)
        tensor = values(rank, count)
        dist.all_reduce(tensor, async_op=True).wait()
        expect_equal(tensor, whole)
        tensor = values(rank, count)
        half = dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: f.value()[0] / 2).wait()
        expect_equal(half, whole / 2)
        output = torch.zeros(count, device="cuda")
        dist.reduce_scatter(output, [values(rank, count), values(rank + 1, count)])
        expect_equal(output, values(rank, count) + values(rank + 1, count))


def streams(rank):
    """What another stream than the default has still to compute is what is reduced, and it finds the result."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.ones(LARGE, device="cuda")
        torch.cuda._sleep(50_000_000)
        tensor.mul_(rank + 1)
        dist.all_reduce(tensor)
        doubled = tensor * 2
    stream.synchronize()
    expect_equal(doubled, torch.full((LARGE,), 6.0, device="cuda"))


def copies(rank):
    for count in [SMALL, LARGE]:
        tensor = values(rank, count)
        dist.broadcast(tensor, 1)
        expect_equal(tensor, values(1, count))
        outputs = [torch.zeros(count, device="cuda") for _ in range(WORLD)]
        dist.all_gather(outputs, values(rank, count))
        for r, output in enumerate(outputs):
            expect_equal(output, values(r, count))
        output = torch.zeros(2, count, device="cuda")
        dist.all_to_all_single(output, torch.stack([values(rank, count), values(rank + 1, count)]))
        expect_equal(output, torch.stack([values(rank, count), values(rank + 1, count)]))
        if rank == 0:
            dist.send(values(7, count), 1)
        else:
            tensor = torch.zeros(count, device="cuda")
            dist.recv(tensor, 0)
            expect_equal(tensor, values(7, count))


def ddp(rank):
    torch.manual_seed(1)
    single = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 3)).double().cuda()
    shared = DistributedDataParallel(copy.deepcopy(single))
    for _ in range(3):
        x, y = torch.randn(12, 20).double().cuda(), torch.randn(12, 3).double().cuda()
        for model, part in [(single, slice(None)), (shared, slice(6 * rank, 6 * rank + 6))]:
            model.zero_grad()
            torch.nn.functional.mse_loss(model(x[part]), y[part]).backward()
        for a, b in zip(single.parameters(), shared.parameters()):
            expect(torch.allclose(a.grad, b.grad, rtol=1e-12, atol=1e-12), "a gradient differs from one process's")


def run(rank, store):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("tutti", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    for check in [reductions, streams, copies, ddp]:
        check(rank)
        dist.barrier()
        if rank == 0:
            print(f"ok  {check.__name__}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("SKIPPED: there is no GPU here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(folder + "/store",), nprocs=WORLD)
