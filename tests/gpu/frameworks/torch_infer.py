#!/usr/bin/env python3
"""A transformer's forward pass in half precision: seconds for all batches, and a hash of what came out."""

import argparse
import time

import torch
from torch import nn

from common import say
from torch_hash import digest
from torch_train import settle


def run(batches=400, warm_up=15, seed=7):
    settle(seed)
    layer = nn.TransformerEncoderLayer(d_model=1024, nhead=16, dim_feedforward=4096, batch_first=True, dropout=0.0)
    net = nn.TransformerEncoder(layer, num_layers=12, enable_nested_tensor=False).cuda().half().eval()
    tokens = torch.randn(16, 512, 1024, device="cuda", dtype=torch.half)
    out = tokens
    start = 0.0
    with torch.inference_mode():
        for number in range(warm_up + batches):
            if number == warm_up:
                torch.cuda.synchronize()
                start = time.perf_counter()
            out = net(tokens)
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return {"figures": {"infer_s": seconds}, "hashes": {"infer": digest([out])}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=400)
    say(program="torch_infer", **run(parser.parse_args().batches))
