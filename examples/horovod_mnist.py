#!/usr/bin/env python3
"""Horovod's PyTorch MNIST program, call by call, on torch.distributed with the backend tutti (docs/in-pytorch.md).

    torchrun --nproc_per_node 2 examples/horovod_mnist.py --epochs 1 [--fp16-allreduce]

What Horovod calls each line stands beside it. Trains on Fashion-MNIST's files (Debian: dataset-fashion-mnist).
"""
import argparse
import gzip
import os
import pathlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import tutti_torch  # noqa: F401                              import horovod.torch as hvd


def read_idx(path):
    with gzip.open(path) as file:
        content = file.read()
    dimensions = content[3]
    shape = [int.from_bytes(content[4 + 4 * d:8 + 4 * d], "big") for d in range(dimensions)]
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=4 + 4 * dimensions).view(shape)


def load(folder, part, samples):
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz")[:samples]
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")[:samples]
    return TensorDataset(images.unsqueeze(1).float() / 255, labels.long())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.drop_maps = nn.Dropout2d()
        self.drop = nn.Dropout()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.drop_maps(self.conv2(x)), 2))
        return self.fc2(self.drop(F.relu(self.fc1(x.flatten(1)))))


def average(value):
    tensor = torch.tensor(value)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)              # hvd.allreduce(tensor)
    return tensor.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel in half precision")
    options = parser.parse_args()

    dist.init_process_group("tutti")                        # hvd.init()
    rank, size = dist.get_rank(), dist.get_world_size()     # hvd.rank(), hvd.size()
    torch.manual_seed(42 + rank)  # first weights are rank 0's anyway, and no two ranks shall drop the same
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))

    training = load(options.data, "train", options.samples)
    test = load(options.data, "t10k", options.samples // 6)
    sampler = DistributedSampler(training, size, rank)
    batches = DataLoader(training, options.batch, sampler=sampler)
    test_batches = DataLoader(test, 1000, sampler=DistributedSampler(test, size, rank, shuffle=False))

    # DistributedDataParallel begins with rank 0's parameters and averages gradients while backward runs:
    model = DistributedDataParallel(Net())                  # hvd.broadcast_parameters, hvd.DistributedOptimizer
    if options.fp16_allreduce:                              # hvd.Compression.fp16
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr * size, momentum=0.5)
    state = [optimizer.state_dict()]
    dist.broadcast_object_list(state, 0)                    # hvd.broadcast_optimizer_state
    optimizer.load_state_dict(state[0])

    for epoch in range(options.epochs):
        model.train()
        sampler.set_epoch(epoch)
        for images, labels in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = [(model(images).argmax(1) == labels).float().mean().item() for images, labels in test_batches]
        accuracy = average(sum(right) / len(right))
        if rank == 0:
            print(f"epoch {epoch + 1}: accuracy {accuracy:.4f}", flush=True)
    dist.destroy_process_group()                            # hvd.shutdown()


if __name__ == "__main__":
    main()
