"""Expected improvement: EUBO's other form, of a new point over the best design seen.

Notation
    X  (*batch, n, d)  designs seen

E max(f(x) − f(x⁺), 0) for the incumbent x⁺ is the variant "improvement" of EUBO with x⁺ as its anchor, so value,
gradient and search are EUBO's own. What is left to say is which design x⁺ is.
"""

from kappasharp.core import posterior
from kappasharp.core.posterior import Posterior
from kappasharp.shapes import Indices


def incumbent(fitted: Posterior) -> Indices:
    """The index of the design seen with the highest posterior mean; the first of equals."""
    return posterior.mean(fitted, fitted.X).argmax(-1)
