#!/usr/bin/env python3
"""A training step in PyTorch, as a PyTorch user writes it.

`eager` is one process; `ddp` is DistributedDataParallel over Gloo with --workers processes, one core each. Input is
random and already in memory, so that only the step is timed. Prints one JSON object. docs/benchmarks.md defines the
metrics.
"""
import argparse
import json
import os
import resource
import statistics
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from networks import NETWORKS

BATCHES_IN_MEMORY = 8
OPTIMIZERS = {"adam": lambda parameters: torch.optim.Adam(parameters, lr=0.001),
              "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.001, momentum=0.9)}


def train(network, options):
    """Seconds of each step after the warm-up."""
    optimizer = OPTIMIZERS[options.optimizer](network.parameters())
    loss_of = nn.CrossEntropyLoss()
    images = torch.rand(BATCHES_IN_MEMORY, options.batch, *NETWORKS[options.network].image)
    labels = torch.randint(NETWORKS[options.network].classes, (BATCHES_IN_MEMORY, options.batch))
    seconds = []
    for step in range(options.warmup + options.steps):
        start = time.perf_counter()
        batch = images[step % BATCHES_IN_MEMORY]
        if options.channels_last:
            batch = batch.to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        loss = loss_of(network(batch), labels[step % BATCHES_IN_MEMORY])
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return seconds[options.warmup:]


def prepared_network(options):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    network = NETWORKS[options.network].make()
    assert sum(p.numel() for p in network.parameters()) == NETWORKS[options.network].parameters
    return network.to(memory_format=torch.channels_last) if options.channels_last else network


def report(options, workers, seconds):
    step = statistics.median(seconds)
    print(json.dumps({"mode": options.mode, "model": options.network, "workers": workers, "batch": options.batch,
                      "step_ms": step * 1000, "samples_per_second": workers * options.batch / step,
                      "parameter_bytes": 4 * NETWORKS[options.network].parameters,
                      "peak_memory_bytes": [1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]}))


def run_rank(rank, options, store):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=options.workers)
    seconds = torch.tensor(train(DistributedDataParallel(prepared_network(options)), options), dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    if rank == 0:
        report(options, options.workers, seconds.tolist())
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["eager", "ddp"])
    parser.add_argument("--network", choices=NETWORKS, default="mnist-cnn")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    parser.add_argument("--workers", type=int, default=2, help="processes of ddp")
    parser.add_argument("--batch", type=int, default=128, help="samples a step and process")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()
    if options.mode == "eager":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        report(options, 1, train(prepared_network(options), options))
        return
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_rank, args=(options, os.path.join(folder, "store")), nprocs=options.workers)


if __name__ == "__main__":
    main()
