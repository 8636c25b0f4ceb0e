"""Convolution, bias, ReLU and 2x2 max-pooling of a very small layer in one kernel, and its derivative in three.

A library's convolution is made for many channels. For the 1, 6 and 16 of LeNet it pads them in memory, with several
launches for every layer that have almost nothing to do. Here a layer is one launch. Each program takes some squares of
2x2 outputs, multiplies their four windows of pixels with the weights, and keeps the largest. The bias is the weight of
a pixel that is always one.

The position of the largest is stored for the backward pass as a number from 0 to 3, and as 4 where ReLU gave zero. Sums
over images are stored in parts and added in a fixed order, so a run is bit-for-bit repeatable. Numbers are float32; a
product is three TF32 products, which is as exact.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

TAPS = 32  # weights multiplied at a time
SQUARES, SQUARES_BACKWARD, PIXELS = 16, 32, 64  # per program
COLUMNS = 32  # of the gradient's parts, per program that adds them up
LAUNCH = {"num_warps": 4, "enable_fp_fusion": True}  # Triton 3.10 rounds a·b before it adds c, unless told


@triton.jit
def _windows(  # type: ignore[no-untyped-def]
    x, square, corner, tap, inside, sxn, sxc, sxh, sxw,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr,
):  # fmt: skip
    """Load the pixels that one corner of each square multiplies with some taps; the last tap is the bias, with 1."""
    square = square[:, None]
    tap = tap[None, :]
    row = 2 * (square // PW % PH) + corner // 2 - P + tap // K % K
    column = 2 * (square % PW) + corner % 2 - P + tap % K
    there = inside[:, None] & (tap < C * K * K) & (row >= 0) & (row < H) & (column >= 0) & (column < W)
    at = x + square // (PH * PW) * sxn + tap // (K * K) * sxc + row * sxh + column * sxw
    return tl.where(tap == C * K * K, 1.0, tl.load(at, mask=there, other=0.0))


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    x, w, b, y, kept, squares, sxn, sxc, sxh, sxw, swo, swc, swh, sww,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr, TAPS: tl.constexpr, OUT_PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    square = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = square < squares
    out = tl.arange(0, OUT_PADDED)[None, :]
    best = tl.full((BLOCK, OUT_PADDED), float("-inf"), tl.float32)
    largest = tl.zeros((BLOCK, OUT_PADDED), tl.int32)
    for corner in tl.static_range(4):
        value = tl.zeros((BLOCK, OUT_PADDED), tl.float32)
        for first in range(0, C * K * K + 1, TAPS):
            tap = first + tl.arange(0, TAPS)
            seen = _windows(x, square, corner, tap, inside, sxn, sxc, sxh, sxw, C, H, W, K, P, PH, PW)
            tap = tap[:, None]
            weight_at = w + out * swo + tap // (K * K) * swc + tap // K % K * swh + tap % K * sww
            weights = tl.load(weight_at, mask=(out < OUT) & (tap < C * K * K), other=0.0)
            weights += tl.load(b + out + 0 * tap, mask=(out < OUT) & (tap == C * K * K), other=0.0)
            value = tl.dot(seen, weights, value, input_precision="tf32x3")
        largest = tl.where(value > best, corner, largest)
        best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    square = square[:, None]
    to = (square // (PH * PW) * OUT + out) * (PH * PW) + square % (PH * PW)
    real = inside[:, None] & (out < OUT)
    tl.store(y + to, tl.maximum(best, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=real)
    tl.store(kept + to, tl.where(best > 0, largest, 4).to(tl.int8), mask=real)


@triton.jit
def _of_images(  # type: ignore[no-untyped-def]
    g, kept, w, dx, pixels, swo, swc, swh, sww,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr, IN_PADDED: tl.constexpr, OUT_PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pixel = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    image = pixel // (H * W)
    out_across = tl.arange(0, OUT_PADDED)[None, :]
    out_down = tl.arange(0, OUT_PADDED)[:, None]
    channel = tl.arange(0, IN_PADDED)[None, :]
    sums = tl.zeros((BLOCK, IN_PADDED), tl.float32)
    for i in tl.static_range(K):
        for j in tl.static_range(K):
            # The output that used this pixel with tap (i, j), if it was the largest of its square.
            row = pixel // W % H + P - i
            column = pixel % W + P - j
            there = (
                (pixel < pixels) & (row >= 0) & (row < 2 * PH) & (column >= 0) & (column < 2 * PW) & (out_across < OUT)
            )
            at = (image * OUT + out_across) * (PH * PW) + row // 2 * PW + column // 2
            largest = tl.load(kept + at, mask=there, other=4).to(tl.int32)
            value = tl.load(g + at, mask=there & (largest == row % 2 * 2 + column % 2), other=0.0)
            weight_at = w + out_down * swo + channel * swc + i * swh + j * sww
            weights = tl.load(weight_at, mask=(out_down < OUT) & (channel < C), other=0.0)
            sums = tl.dot(value, weights, sums, input_precision="tf32x3")
    to = (image * C + channel) * (H * W) + pixel % (H * W)
    tl.store(dx + to, sums, mask=(pixel < pixels) & (channel < C))


@triton.jit
def _of_weights(  # type: ignore[no-untyped-def]
    g, kept, x, parts, squares, sxn, sxc, sxh, sxw,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr, TAPS: tl.constexpr, OUT_PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    square = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = square < squares
    out = tl.arange(0, OUT_PADDED)[:, None]
    at = (square // (PH * PW) * OUT)[None, :] * (PH * PW) + out * (PH * PW) + (square % (PH * PW))[None, :]
    real = inside[None, :] & (out < OUT)
    largest = tl.load(kept + at, mask=real, other=4).to(tl.int32)
    value = tl.load(g + at, mask=real, other=0.0)
    tap = tl.program_id(1) * TAPS + tl.arange(0, TAPS)
    sums = tl.zeros((OUT_PADDED, TAPS), tl.float32)
    for corner in tl.static_range(4):
        seen = _windows(x, square, corner, tap, inside, sxn, sxc, sxh, sxw, C, H, W, K, P, PH, PW)
        sums = tl.dot(tl.where(largest == corner, value, 0.0), seen, sums, input_precision="tf32x3")
    taps: tl.constexpr = C * K * K + 1
    tap = tap[None, :]
    tl.store(parts + (tl.program_id(0) * OUT + out) * taps + tap, sums, mask=(out < OUT) & (tap < taps))


@triton.jit
def _add_up(  # type: ignore[no-untyped-def]
    parts, dw, db, swo, swc, swh, sww,
    C: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr,
    PARTS: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    taps: tl.constexpr = C * K * K + 1
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((CHUNK, COLUMNS), tl.float32)
    for start in range(0, PARTS, CHUNK):
        part = start + tl.arange(0, CHUNK)[:, None]
        real = (part < PARTS) & (column[None, :] < OUT * taps)
        sums += tl.load(parts + part * (OUT * taps) + column[None, :], mask=real, other=0.0)
    total = tl.sum(sums, 0)
    out = column // taps
    tap = column % taps
    to = out * swo + tap // (K * K) * swc + tap // K % K * swh + tap % K * sww
    tl.store(dw + to, total, mask=(out < OUT) & (tap < taps - 1))
    tl.store(db + out, total, mask=(out < OUT) & (tap == taps - 1))


def _sizes(x: Tensor, w: Tensor, padding: int) -> dict[str, int]:
    channels, height, width = x.shape[1:]
    size = w.shape[-1]
    pooled = {"PH": (height + 2 * padding - size + 1) // 2, "PW": (width + 2 * padding - size + 1) // 2}
    return {"C": channels, "H": height, "W": width, "OUT": len(w), "K": size, "P": padding, **pooled}


def _padded(number: int) -> int:
    """Return the size of a tile: a power of two, at least 16."""
    return max(16, 1 << (number - 1).bit_length())


@torch.library.custom_op("tnlpad::convolved_pooled", mutates_args=())
def convolved_pooled(x: Tensor, w: Tensor, b: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Return the layer's outputs, and which of four was the largest."""
    sizes = _sizes(x, w, padding)
    y = x.new_empty(len(x), sizes["OUT"], sizes["PH"], sizes["PW"])
    kept = torch.empty_like(y, dtype=torch.int8)
    squares = y.numel() // sizes["OUT"]
    _forward[(triton.cdiv(squares, SQUARES),)](
        *(x, w, b, y, kept, squares, *x.stride(), *w.stride()),
        **sizes, TAPS=TAPS, OUT_PADDED=_padded(len(w)), BLOCK=SQUARES, num_stages=1, **LAUNCH,
    )  # fmt: skip
    return y, kept


@convolved_pooled.register_fake
def _(x: Tensor, w: Tensor, b: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    sizes = _sizes(x, w, padding)
    y = x.new_empty(len(x), sizes["OUT"], sizes["PH"], sizes["PW"])
    return y, torch.empty_like(y, dtype=torch.int8)


@torch.library.custom_op("tnlpad::convolved_pooled_images", mutates_args=())
def of_images(g: Tensor, kept: Tensor, x: Tensor, w: Tensor, padding: int) -> Tensor:
    """Return the derivative with respect to the images."""
    sizes = _sizes(x, w, padding)
    dx = x.new_empty(x.shape)
    pixels = dx.numel() // sizes["C"]
    _of_images[(triton.cdiv(pixels, PIXELS),)](
        *(g, kept, w, dx, pixels, *w.stride()),
        **sizes, IN_PADDED=_padded(sizes["C"]), OUT_PADDED=_padded(len(w)), BLOCK=PIXELS, **LAUNCH,
    )  # fmt: skip
    return dx


@of_images.register_fake
def _(g: Tensor, kept: Tensor, x: Tensor, w: Tensor, padding: int) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.custom_op("tnlpad::convolved_pooled_weights", mutates_args=())
def of_weights(g: Tensor, kept: Tensor, x: Tensor, w: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Return the derivatives with respect to weights and biases."""
    sizes, taps = _sizes(x, w, padding), w[0].numel() + 1
    squares = g.numel() // len(w)
    count = triton.cdiv(squares, SQUARES_BACKWARD)
    parts = x.new_empty(count, len(w) * taps)
    _of_weights[(count, triton.cdiv(taps, TAPS))](
        *(g, kept, x, parts, squares, *x.stride()),
        **sizes, TAPS=TAPS, OUT_PADDED=_padded(len(w)), BLOCK=SQUARES_BACKWARD, **LAUNCH,
    )  # fmt: skip
    dw, db = torch.empty_like(w), w.new_empty(len(w))
    shape = {name: sizes[name] for name in ("C", "OUT", "K")}
    _add_up[(triton.cdiv(len(w) * taps, COLUMNS),)](
        *(parts, dw, db, *dw.stride()),
        **shape, PARTS=count, CHUNK=min(128, _padded(count)), COLUMNS=COLUMNS, **LAUNCH,
    )  # fmt: skip
    return dw, db


@of_weights.register_fake
def _(g: Tensor, kept: Tensor, x: Tensor, w: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(w), w.new_empty(len(w))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, w, _, ctx.padding = inputs
    ctx.save_for_backward(x, w, output[1])


def _backward(ctx: Any, g: Tensor, _: Tensor | None) -> tuple[Tensor | None, Tensor, Tensor, None]:
    x, w, kept = ctx.saved_tensors
    g = g.contiguous()
    dx = of_images(g, kept, x, w, ctx.padding) if ctx.needs_input_grad[0] else None
    return dx, *of_weights(g, kept, x, w, ctx.padding), None


convolved_pooled.register_autograd(_backward, setup_context=_keep)


def fused_block(images: Tensor, convolution: nn.Conv2d) -> Tensor:
    """Compute `max_pool2d(relu(convolution(images)), 2)` for stride 1 and an even height and width of outputs."""
    assert convolution.bias is not None
    outputs: Tensor
    outputs, _ = convolved_pooled(images, convolution.weight, convolution.bias, int(convolution.padding[0]))
    return outputs
