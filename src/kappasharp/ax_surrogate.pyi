"""What `kappasharp.integrations.ax` was called before."""

from kappasharp.integrations.ax import KappaSharpSurrogate as KappaSharpSurrogate
from kappasharp.integrations.ax import bope_surrogate_spec as bope_surrogate_spec
from kappasharp.integrations.ax import surrogate as surrogate
from kappasharp.integrations.ax import surrogate_spec as surrogate_spec
