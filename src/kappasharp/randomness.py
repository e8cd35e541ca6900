"""Named random streams: the same words always give the same numbers, on every machine and for every method."""

import hashlib

import torch


def stream(seed: int, *names: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for these words; no global generator is ever touched."""
    words = "\x1f".join((str(seed), *names)).encode()
    digest = hashlib.sha256(words).digest()
    generator = torch.Generator(device=device)
    # 63 bits: torch refuses seeds outside the range of a signed 64-bit integer on some devices.
    generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return generator


def uniform(shape: tuple[int, ...], generator: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    """Uniform numbers in [0, 1), drawn in float64 on the CPU so that every device and precision sees the same."""
    return torch.rand(shape, generator=generator, dtype=torch.float64).to(like)
