"""Names for the tensors that travel between functions; "*batch" stands for any leading dimensions.

Under pytest, where jaxtyping is loaded first, it and beartype check every shape at run time. Otherwise the names are
plain tensors and nothing is checked, so that the package needs torch alone.
"""

import sys
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

if TYPE_CHECKING or sys.modules.get("jaxtyping") is None:
    Points: TypeAlias = Tensor
    Pairs: TypeAlias = Tensor
    Utilities: TypeAlias = Tensor
    PerComparison: TypeAlias = Tensor
    PerComparisonMask: TypeAlias = Tensor
    PerRun: TypeAlias = Tensor
    Indices: TypeAlias = Tensor
    PerRunMask: TypeAlias = Tensor
    PointMatrix: TypeAlias = Tensor
    ComparisonMatrix: TypeAlias = Tensor
    ComparisonRows: TypeAlias = Tensor
    Parameters: TypeAlias = Tensor
    Lengthscales: TypeAlias = Tensor
    AnyFloat: TypeAlias = Tensor
else:
    from jaxtyping import Bool, Float, Int

    Points = Float[Tensor, "*batch n d"]
    Pairs = Int[Tensor, "*batch m 2"]
    Utilities = Float[Tensor, "*batch n"]
    PerComparison = Float[Tensor, "*batch m"]
    PerComparisonMask = Bool[Tensor, "*batch m"]
    PerRun = Float[Tensor, "*batch"]
    Indices = Int[Tensor, "*batch"]
    PerRunMask = Bool[Tensor, "*batch"]
    PointMatrix = Float[Tensor, "*batch n n"]
    ComparisonMatrix = Float[Tensor, "*batch m m"]
    ComparisonRows = Float[Tensor, "*batch m k"]
    Parameters = Float[Tensor, "*batch p"]
    Lengthscales = Float[Tensor, "*batch d"]
    AnyFloat = Float[Tensor, "..."]
