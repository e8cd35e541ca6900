"""Damage as disks and cables do it: bits turned round, the end cut off."""


def flipped(content: bytes, *bits: int) -> bytes:
    """The same bytes with these bits turned round."""
    damaged = bytearray(content)
    for bit in bits:
        damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def damages(content: bytes, chance, *, flips: int, cuts: int):
    """So many copies with one to eight bits turned round, and so many that end early, each with what was done."""
    for _ in range(flips):
        bits = chance.integers(8 * len(content), size=chance.integers(1, 9)).tolist()
        yield f"bits {bits} turned round", flipped(content, *bits)
    for _ in range(cuts):
        length = int(chance.integers(len(content)))
        yield f"cut to {length} bytes", content[:length]
