"""flex_attention as the attention that it is.

`flex_attention(q, k, v, score_mod, block_mask)` is compiled to one kernel, which a tensor
without elements has none of. While a function is recorded, it is written out:

    scores = score_mod(q @ k.transpose * scale, batch, head, row, column)
    softmax(where(mask_mod(batch, head, row, column), scores, -inf)) @ v

The functions of a user are those of one element. They are called once, with the indices
of all elements along dimensions of their own: a `slope[head]` in them is one element for
each head. The block mask lists for a kernel which blocks to leave out; the mask itself is its
`mask_mod`.

Names that other modules have imported are the same function object, so that its code is
replaced, and not its name.
"""

from __future__ import annotations

import importlib
import math
from types import CodeType, FunctionType
from typing import Any

import torch

_MODULE = "torch.nn.attention.flex_attention"
_HOOK = "_shardc_attention"


def attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    return_aux: Any = None,
) -> Any:
    """What flex_attention returns, from operations that are recorded."""
    if enable_gqa and query.shape[1] != key.shape[1]:
        key, value = (_repeated(x, query.shape[1]) for x in (key, value))
    scores = query @ key.transpose(-1, -2)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    at = _indices(scores)
    if score_mod is not None:
        scores = score_mod(scores, *at).expand(scores.shape)
    mask_mod = getattr(block_mask, "mask_mod", None)
    if mask_mod is not None:
        shown = mask_mod(*at)
        if isinstance(shown, torch.Tensor):
            scores = torch.where(shown, scores, -math.inf)
    out = torch.softmax(scores, -1).to(value.dtype) @ value
    if return_aux is not None:
        module = importlib.import_module(_MODULE)
        return out, module.AuxOutput(
            lse=scores.logsumexp(-1) if return_aux.lse else None,
            max_scores=scores.amax(-1) if return_aux.max_scores else None,
        )
    return (out, scores.logsumexp(-1)) if return_lse else out


def _repeated(x: Any, heads: int) -> Any:
    """Keys or values with each KV head once for each query head of its group."""
    batch, kv_heads, length, size = x.shape
    group = heads // kv_heads
    x = x[:, :, None].expand(batch, kv_heads, group, length, size)
    return x.reshape(batch, heads, length, size)


def _indices(scores: Any) -> list[Any]:
    """The batch, head, row and column of each score, along its own dimension."""
    out = []
    for dim, size in enumerate(scores.shape):
        # Rows and columns are compared with each other: a program has them as counts.
        device = "cpu" if dim < 2 else scores.device
        index = torch.arange(size, dtype=torch.int32, device=device)
        out.append(index.view([size if d == dim else 1 for d in range(scores.dim())]))
    return out


def _replacement(  # type: ignore[no-untyped-def]
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    return _shardc_attention(  # type: ignore[name-defined]  # noqa: F821
        query,
        key,
        value,
        score_mod,
        block_mask,
        scale,
        enable_gqa,
        return_lse,
        kernel_options,
        return_aux,
    )


class WrittenOut:
    """Within it, flex_attention is written out, and functions that torch.compile has
    wrapped run as they are."""

    def __init__(self) -> None:
        self._code: CodeType | None = None
        self._function: FunctionType | None = None
        self._stance: Any = None

    def __enter__(self) -> None:
        stance = getattr(torch.compiler, "set_stance", None)
        if stance is not None:
            self._stance = stance("force_eager")
            self._stance.__enter__()
        try:
            module = importlib.import_module(_MODULE)
        except ImportError:
            return
        setattr(module, _HOOK, attention)
        self._function = module.flex_attention
        self._code = self._function.__code__
        self._function.__code__ = _replacement.__code__

    def __exit__(self, *given: Any) -> None:
        if self._function is not None and self._code is not None:
            self._function.__code__ = self._code
        if self._stance is not None:
            self._stance.__exit__(*given)
