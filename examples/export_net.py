# A network made in Python, for `tutti train --model script:net.pt --data csv:table.csv`.
import sys
import torch

net = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 2))
torch.jit.script(net).save(sys.argv[1] if len(sys.argv) > 1 else "net.pt")
