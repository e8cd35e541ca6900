"""What `kappasharp.integrations.optuna` was called before."""

from kappasharp.integrations.optuna import KappaSharpSampler as KappaSharpSampler
