"""What `kappasharp.integrations.botorch` was called before."""

from kappasharp.integrations.botorch import KappaSharpGP as KappaSharpGP
from kappasharp.integrations.botorch import KappaSharpMarginalLogLikelihood as KappaSharpMarginalLogLikelihood
from kappasharp.integrations.botorch import comparisons_of_choices as comparisons_of_choices
from kappasharp.integrations.botorch import comparisons_of_orders as comparisons_of_orders
