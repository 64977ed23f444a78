"""A team's own model, which neither transformers nor the program knows: every few layers
attend, the others have a gated convolution, and the last layers have experts."""

from __future__ import annotations

import dataclasses
from typing import Optional

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass
class NimbusConfig:
    vocab_size: int = 32000
    hidden_size: int = 1024
    intermediate_size: int = 2816
    num_hidden_layers: int = 12
    num_attention_heads: int = 16
    num_key_value_heads: int = 4
    head_dim: Optional[int] = None
    conv_kernel: int = 4
    attention_every: int = 3
    num_dense_layers: int = 2
    num_experts: int = 8
    expert_size: int = 768
    qkv_bias: bool = False
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        if self.head_dim is None:
            self.head_dim = self.hidden_size // self.num_attention_heads


class Attention(nn.Module):
    def __init__(self, config: NimbusConfig) -> None:
        super().__init__()
        size, bias = config.hidden_size, config.qkv_bias
        heads = config.num_attention_heads * config.head_dim
        shared = config.num_key_value_heads * config.head_dim
        self.qkv = nn.Linear(size, heads + 2 * shared, bias=bias)
        self.q_norm = nn.RMSNorm(config.head_dim)
        self.out = nn.Linear(heads, size, bias=False)
        self.sizes = heads, shared, shared
        self.head_dim = config.head_dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
                   for part in self.qkv(x).split(self.sizes, -1))
        q = self.q_norm(q)
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], 1) for part in (k, v))
        scores = q @ k.transpose(-1, -2) / self.head_dim ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        scores = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).flatten(2))


class Convolution(nn.Module):
    def __init__(self, config: NimbusConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.gate = nn.Linear(size, 2 * size, bias=False)
        self.mix = nn.Conv1d(size, size, config.conv_kernel, groups=size)
        self.before = config.conv_kernel - 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.gate(x).chunk(2, -1)
        value = functional.pad(value.transpose(1, 2), (self.before, 0))
        return self.mix(value).transpose(1, 2) * gate.sigmoid()


class Experts(nn.Module):
    def __init__(self, config: NimbusConfig) -> None:
        super().__init__()
        number, inner, size = config.num_experts, config.expert_size, config.hidden_size
        # The router is in float32 whatever the model is in.
        self.router = nn.Parameter(torch.zeros(number, size, dtype=torch.float32))
        self.up = nn.Parameter(torch.empty(number, 2 * inner, size))
        self.down = nn.Parameter(torch.empty(number, size, inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = (x.float() @ self.router.T).softmax(-1).to(x.dtype)
        value, gate = torch.einsum("bsh,efh->bsef", x, self.up).chunk(2, -1)
        each = torch.einsum("bsef,ehf->bseh", value * functional.silu(gate), self.down)
        return (each * weights[..., None]).sum(2)


class FeedForward(nn.Module):
    def __init__(self, config: NimbusConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.up(x).chunk(2, -1)
        return self.down(value * functional.silu(gate))


class Layer(nn.Module):
    def __init__(self, config: NimbusConfig, index: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.hidden_size)
        if (index + 1) % config.attention_every == 0:
            self.attention = Attention(config)
        else:
            self.convolution = Convolution(config)
        dense = index < config.num_dense_layers
        self.ffn = FeedForward(config) if dense else Experts(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixer = self.attention if hasattr(self, "attention") else self.convolution
        x = x + mixer(self.norm(x))
        return x + self.ffn(self.norm(x))


class NimbusLM(nn.Module):
    def __init__(self, config: NimbusConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Layer(config, index) for index in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size)
        if not config.tie_word_embeddings:
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        table = self.head.weight if hasattr(self, "head") else self.embed.weight
        return self.norm(x) @ table.T
