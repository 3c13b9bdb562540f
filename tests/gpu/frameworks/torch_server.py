#!/usr/bin/env python3
"""A model server that is asked rarely: weights of a Llama's shape, and a request every few seconds.

Usage: torch_server.py --size BYTES [--every SECONDS] [--requests N] [--tokens N] [--seed N] [--until TIME]

A request writes --tokens tokens after a prompt, greedily, with keys and values kept on the GPU. The pause before each is
drawn between 0.83 and 1.17 times --every; with --until requests come until that time (seconds since 1970). All requests
have the same prompt, so all answers must be the same: each JSON line `request` {seconds, same} says how long the answer
took and whether it was the first one's. Before: ready {weights, tokens}; last: done {requests, wrong, time}.
"""

import argparse
import random
import time

import torch

from common import say

WIDTH, HEADS, INNER, VOCABULARY = 4096, 32, 11008, 32000


def norm(x):
    return x * torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + 1e-5).to(x.dtype)


class Layer:
    def __init__(self, most, generator):
        def weights(rows, columns):
            made = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
            return made.normal_(0, rows ** -0.5, generator=generator)
        self.attend, self.out = weights(WIDTH, 3 * WIDTH), weights(WIDTH, WIDTH)
        self.up, self.gate, self.down = weights(WIDTH, INNER), weights(WIDTH, INNER), weights(INNER, WIDTH)
        self.kept = torch.zeros(2, HEADS, most, WIDTH // HEADS, device="cuda", dtype=torch.bfloat16)

    def __call__(self, x, at):
        query, *others = (norm(x) @ self.attend).view(3, HEADS, 1, WIDTH // HEADS)
        for kept, other in zip(self.kept, others):
            kept[:, at] = other[:, 0]
        keys, values = self.kept[0][:, : at + 1], self.kept[1][:, : at + 1]
        x = x + torch.nn.functional.scaled_dot_product_attention(query, keys, values).reshape(1, WIDTH) @ self.out
        y = norm(x)
        return x + (torch.nn.functional.silu(y @ self.gate) * (y @ self.up)) @ self.down


class Model:
    def __init__(self, size, tokens, seed):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.words = torch.empty(VOCABULARY, WIDTH, device="cuda", dtype=torch.bfloat16).normal_(0, 1, generator=generator)
        layer = 2 * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER)
        count = max(1, (size - self.words.nbytes) // layer)
        self.layers = [Layer(tokens + 8, generator) for _ in range(count)]
        self.weights = self.words.nbytes + count * layer

    @torch.inference_mode()
    def answer(self, tokens):
        said = [1]
        for at in range(tokens):
            x = self.words[said[-1]].view(1, WIDTH) * 0.05  # what the layers add decides
            for layer in self.layers:
                x = layer(x, at)
            said.append(int((norm(x) @ self.words.T).argmax()))
        return said


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, required=True)
    options.add_argument("--every", type=float, default=6)
    options.add_argument("--requests", type=int, default=10)
    options.add_argument("--tokens", type=int, default=28)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--until", type=float)
    o = options.parse_args()
    pauses = random.Random(o.seed)
    model = Model(o.size, o.tokens, o.seed)
    right = model.answer(o.tokens)
    say(event="ready", weights=model.weights, tokens=right[:8], time=time.time())
    count = wrong = 0
    while time.time() < o.until if o.until else count < o.requests:
        time.sleep(o.every * pauses.uniform(0.83, 1.17))
        begin = time.monotonic()
        same = model.answer(o.tokens) == right
        say(event="request", seconds=time.monotonic() - begin, same=same, time=time.time())
        count += 1
        wrong += not same
    say(event="done", requests=count, wrong=wrong, seconds=0, time=time.time())


if __name__ == "__main__":
    main()
