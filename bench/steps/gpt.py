"""The GPT of workloads/gpt.cpp in Python: the same ops in the same order."""
import dataclasses
import math

import torch
from torch import nn


@dataclasses.dataclass
class Config:
    layers: int = 8
    width: int = 384
    heads: int = 6
    tokens: int = 256
    batch: int = 8
    vocabulary: int = 96
    dropout: float = 0.1


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, width = config, config.width
        self.norm1 = nn.LayerNorm(width)
        self.query, self.key, self.value, self.project = (nn.Linear(width, width) for _ in range(4))
        self.norm2 = nn.LayerNorm(width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(config.tokens, config.tokens).triu(1).bool())

    def forward(self, x):
        config = self.config
        head = config.width // config.heads

        def split(t):
            return t.view(config.batch, config.tokens, config.heads, head).transpose(1, 2)

        h = self.norm1(x)
        q, k, v = split(self.query(h)), split(self.key(h)), split(self.value(h))
        scores = q.matmul(k.transpose(-2, -1)) / math.sqrt(head)
        scores = scores.masked_fill(self.mask, -1e9).softmax(-1)
        scores = torch.dropout(scores, config.dropout, True)
        mixed = scores.matmul(v).transpose(1, 2).contiguous().view(config.batch, config.tokens, config.width)
        y = x + torch.dropout(self.project(mixed), config.dropout, True)
        expanded = nn.functional.gelu(self.expand(self.norm2(y)))
        return y + torch.dropout(self.contract(expanded), config.dropout, True)


class Gpt(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token, self.position = nn.Embedding(config.vocabulary, config.width), nn.Embedding(config.tokens, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, config.vocabulary)

    def forward(self, tokens, targets, run_blocks):
        position = self.position(torch.arange(self.config.tokens))
        x = torch.dropout(self.token(tokens) + position, self.config.dropout, True)
        x = run_blocks(self.blocks, x)
        return nn.functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def one_by_one(run):
    def run_blocks(blocks, x):
        for block in blocks:
            x = run(block, x)
        return x
    return run_blocks
