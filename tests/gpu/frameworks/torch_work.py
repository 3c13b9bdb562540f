#!/usr/bin/env python3
"""torch_work.py [train] [infer] [tiny]: runs several of the measured programs in one process, since PyTorch takes
seconds to start."""

import sys

import torch_infer
import torch_tiny
import torch_train
from common import say

PROGRAMS = {"tiny": torch_tiny.run, "infer": torch_infer.run, "train": torch_train.run}


def main():
    figures, hashes = {}, {}
    for name in sys.argv[1:] or PROGRAMS:
        answer = PROGRAMS[name]()
        figures.update(answer["figures"])
        hashes.update(answer["hashes"])
    say(program="torch_work", figures=figures, hashes=hashes)


if __name__ == "__main__":
    main()
