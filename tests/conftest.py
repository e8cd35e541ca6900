"""Every test runs in double precision unless it says otherwise, on one thread, with reproducible examples."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import tests.shape_checks  # noqa: F401 - named in pyproject.toml, it must be there before the package is

torch.set_num_threads(1)

# A file's tests stay in one process (see the Makefile). Those that take longest go first, so that no process is left
# alone with one of them at the end.
LONGEST = (
    "app/test_run.py",
    "problems/test_contract.py",
    "study/test_durability.py",
    "methods/test_loop.py",
    "lab/test_engines.py",
    "page/test_browser.py",
    "drop_in/test_model.py",
    "study/test_questions.py",
    "lab/test_figures.py",
    "methods/test_inference.py",
    "study/test_certainty.py",
    "lab/test_execution.py",
    "lab/test_lost_scheduler.py",
    "page/test_server.py",
)

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", deadline=None, max_examples=400, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items):
    place = {Path(__file__).parent / name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.fixture(autouse=True)
def _double_precision():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
