"""The backend "tutti" of torch.distributed.

    import tutti_torch
    torch.distributed.init_process_group("tutti")

Importing this package registers the backend. docs/in-pytorch.md says what it does and where its limits are.
"""
import inspect

import torch  # noqa: F401  (loads the libraries that _C needs)
import torch.distributed as dist

from . import _C

if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
    dist.Backend.register_backend("tutti", _C.create, devices=["cpu", "cuda"])
else:  # before 2.0
    dist.Backend.register_backend("tutti", _C.create)
