"""Every test runs in double precision unless it says otherwise, on one thread, with reproducible examples."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

import tests.shape_checks  # noqa: F401 - named in pyproject.toml, it must be there before the package is

torch.set_num_threads(1)

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", deadline=None, max_examples=400, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _double_precision():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
