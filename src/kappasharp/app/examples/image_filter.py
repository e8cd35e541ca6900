"""Example: a photo filter on a landscape that is computed here too. A PNG for each setting, written by hand."""

import math
import struct
import zlib
from functools import cache
from typing import Any

import torch
from torch import Tensor

from kappasharp.randomness import stream

HEIGHT, WIDTH = 320, 480
# How much red, green and blue weigh in what the eye calls bright.
BRIGHTNESS = (0.2126, 0.7152, 0.0722)


def colour(code: str) -> Tensor:
    """#rrggbb as three numbers from 0 to 1."""
    return torch.tensor([int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)], dtype=torch.float32)


@cache
def coordinates() -> tuple[Tensor, Tensor]:
    """Across and down, both from 0 to 1."""
    y = torch.linspace(0, 1, HEIGHT, dtype=torch.float32).unsqueeze(1).expand(HEIGHT, WIDTH)
    x = torch.linspace(0, 1, WIDTH, dtype=torch.float32).unsqueeze(0).expand(HEIGHT, WIDTH)
    return x, y


def _ridge(x: Tensor, base: float, height: float, name: str) -> Tensor:
    """The line of some hills."""
    numbers = torch.rand(12, generator=stream(7, "landscape", name), dtype=torch.float32)
    line = torch.full_like(x, base)
    for k in range(6):
        line = line - height / (k + 1.4) * torch.sin(math.tau * (k + 1) * (x * (0.6 + numbers[k]) + numbers[k + 6]))
    return line


def _smooth(edge: Tensor) -> Tensor:
    return torch.sigmoid(edge * 260)


@cache
def landscape() -> Tensor:
    """The picture before any filter, (3, height, width): sky, sun, clouds, hills in haze, a lake, firs."""
    x, y = coordinates()
    image = _mix(colour("#3f74b5"), colour("#f3d9b1"), (y / 0.62).clamp(0, 1) ** 1.4)
    distance = ((x - 0.68) ** 2 * 2.25 + (y - 0.33) ** 2).sqrt()
    image = _over(image, colour("#fff3cf"), 0.85 * torch.exp(-((distance / 0.17) ** 2)))
    image = _over(image, colour("#fffaf0"), torch.sigmoid((0.047 - distance) * 400))
    cloud = _noise(x * 3.0, y * 9.0) * torch.exp(-(((y - 0.17) / 0.12) ** 2))
    image = _over(image, colour("#ffffff"), (cloud * 1.5 - 0.35).clamp(0, 0.85))
    for code, base, height, name in (
        ("#8fa3c0", 0.50, 0.05, "far"),
        ("#5f7f96", 0.55, 0.055, "middle"),
        ("#3c6152", 0.62, 0.045, "near"),
    ):
        image = _over(image, colour(code), _smooth(y - _ridge(x, base, height, name)))
    lake = _mix(colour("#7fa9c9"), colour("#20485f"), ((y - 0.70) / 0.3).clamp(0, 1))
    ripple = 0.10 * torch.sin(y**2 * 420 + 3 * torch.sin(x * 21)) * torch.exp(-(((x - 0.68) / 0.1) ** 2))
    image = _over(image, lake + ripple, _smooth(y - 0.70 - 0.004 * torch.sin(x * 40)))
    image = _over(image, colour("#c9a36a"), 0.9 * _smooth(y - 0.9 - 0.03 * torch.sin(x * 7 + 1)))
    return _firs(image, x, y)


def _firs(image: Tensor, x: Tensor, y: Tensor) -> Tensor:
    places = torch.rand(16, 2, generator=stream(7, "landscape", "firs"), dtype=torch.float32)
    for place, size in places.tolist():
        middle, foot, tall = place * 0.42 - 0.03, 0.93 + 0.03 * size, 0.22 + 0.2 * size
        share = ((y - (foot - tall)) / tall).clamp(0, 1)
        wide = 0.045 * share * (0.65 + 0.35 * (share * 9 % 1))
        inside = _smooth((wide - (x - middle).abs()) * 1.2) * _smooth(foot - y) * _smooth(y - (foot - tall))
        image = _over(image, colour("#17382f") * (0.75 + 0.5 * size), inside)
    return image.clamp(0, 1)


def _noise(x: Tensor, y: Tensor) -> Tensor:
    """Soft clouds: a few sines at odd angles."""
    total = torch.zeros_like(x)
    for k in range(1, 7):
        turn = 1.7 * k * k
        total = total + torch.sin(x * k * math.cos(turn) * 2.1 + y * k * math.sin(turn) + turn * 3) / k
    return 0.5 + 0.35 * total


def _mix(one: Tensor, other: Tensor, share: Tensor) -> Tensor:
    return one[:, None, None] * (1 - share) + other[:, None, None] * share


def _over(image: Tensor, paint: Tensor, share: Tensor) -> Tensor:
    full = paint if paint.dim() > 1 else paint[:, None, None]
    return image * (1 - share) + full * share


def develop(params: dict[str, Any]) -> Tensor:
    """The landscape through the filter."""
    image = landscape() * 2.0 ** float(params["exposure"])
    warmth = 0.18 * float(params["warmth"])
    image = image * torch.tensor([1 + warmth, 1.0, 1 - warmth])[:, None, None]
    grey = (image * torch.tensor(BRIGHTNESS)[:, None, None]).sum(0, keepdim=True)
    image = grey + (image - grey) * float(params["saturation"])
    image = 0.5 + (image - 0.5) * float(params["contrast"])
    blurred = torch.nn.functional.avg_pool2d(image.unsqueeze(0), 5, 1, 2, count_include_pad=False)[0]
    image = image + float(params["sharpness"]) * (image - blurred)
    x, y = coordinates()
    corner = ((x - 0.5) ** 2 + (y - 0.5) ** 2) * 2
    return (image * (1 - 0.9 * float(params["vignette"]) * corner**1.3)).clamp(0, 1)


def png(image: Tensor) -> bytes:
    """A picture (3, height, width) from 0 to 1 as PNG."""
    pixels = (image * 255 + 0.5).to(torch.uint8).permute(1, 2, 0).contiguous()
    height, width, _ = pixels.shape
    rows = torch.cat([torch.zeros(height, 1, dtype=torch.uint8), pixels.reshape(height, -1)], 1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.numpy().tobytes(), 3)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def render(params: dict[str, Any]) -> bytes:
    """The filtered picture."""
    return png(develop(params))
