"""One GPU against the same machine's cores: python -m benchmarks.gpu [--seeds 120] [--batch 1024].

The analytic part of the paper's grid (9 problems, 5 initializations, 5 methods) with twice its seeds, 27,000 runs, on
the GPU, a sample of the same blocks on all cores by our own CPU engine, and for scale the time of one batched
factorization. The workers' start is counted on both sides; with the paper's own 60 seeds it would be half of the GPU's
time.
Needs nothing but torch, NumPy, SciPy and PyArrow. Writes benchmarks/gpu.json.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from kappasharp.lab import experiment, grid, schedule
from kappasharp.lab.schedule import AS_THEY_ARE, Limit
from kappasharp.lab.store import Store

HERE = Path(__file__).parent
SIMULATED = ("plasma-16d", "robotpush-14d")


def analytic(seeds):
    """The paper's grid without the two problems that are simulated, with this number of seeds."""
    whole = experiment.read(HERE.parent / "experiments" / "main.toml")
    problems = tuple(name for name in whole.problems if name not in SIMULATED)
    return replace(whole, problems=problems, seeds=tuple(range(seeds)))


def sample(blocks, count):
    """Some blocks of the same grid, as large as they are: smaller ones would cost a core more per run."""
    return random.Random(0).sample(blocks, count)


def timed_runs(plan, blocks, engine, limit=AS_THEY_ARE):
    """Runs finished and the seconds they took, stored as in any experiment."""
    with tempfile.TemporaryDirectory() as folder:
        todo = schedule.Workload(plan.name, Store(Path(folder)).open(), blocks, blocks)
        begin, finished, errors = time.perf_counter(), 0, []
        for step in schedule.run_missing(todo, engine, limit):
            finished += 0 if step.error else step.runs
            errors += [step.error] if step.error else []
        return finished, time.perf_counter() - begin, errors


def floor_ms(m=65, count=4096):
    """Milliseconds of one batched Cholesky factorization of a 65 × 65 matrix in double precision."""
    M = torch.randn(count, m, m, dtype=torch.float64, device="cuda")
    M = M @ M.mT + m * torch.eye(m, dtype=torch.float64, device="cuda")
    torch.linalg.cholesky_ex(M)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        torch.linalg.cholesky_ex(M)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / 20 / count * 1e3


def stop_mps():
    """The end of what `start_mps` began."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["nvidia-cuda-mps-control"], input=b"quit -t 2\n", check=False, timeout=10)


def start_mps():
    """NVIDIA's multi-process service, so that several workers share the GPU; without it they take turns."""
    os.environ.setdefault("CUDA_MPS_PIPE_DIRECTORY", "/tmp/kappasharp-mps")
    os.environ.setdefault("CUDA_MPS_LOG_DIRECTORY", "/tmp/kappasharp-mps-log")
    try:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
        return True
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no multi-process service of our own: {error}", flush=True)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--workers",
        type=int,
        default=max(1, (os.cpu_count() or 2) - 1),
        help="processes that feed the GPU; by default all cores but one",
    )
    parser.add_argument("--seeds", type=int, default=120, help="of every cell; the paper's grid has 60")
    parser.add_argument("--batch", type=int, default=1024, help="most runs in lockstep")
    parser.add_argument("--cpu-blocks", type=int, default=32, help="blocks of 60 runs in the sample for the cores")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("There is no CUDA device here.")
    with contextlib.ExitStack() as ending:
        if start_mps():
            ending.callback(stop_mps)
        return compare(options)


def compare(options):
    """Both engines on the same grid; 0 where the bars hold."""
    plan = analytic(options.seeds)
    blocks = grid.blocks(plan)
    gpu = schedule.engine("processes", "cuda", options.workers)
    # The kernels are compiled once per machine and number of dimensions, and kept: that is not part of a run's cost.
    small = grid.blocks(replace(plan, initializations=("pool_n6_k15",), seeds=(0,)))
    startup = timed_runs(plan, small, gpu, Limit(options.batch))[1]
    print(f"compiling the kernels, one run of every problem and method: {startup:.0f} s", flush=True)
    runs, seconds, errors = timed_runs(plan, blocks, gpu, Limit(options.batch))
    result = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "workers": options.workers,
        "batch": options.batch,
    }
    result |= {
        "runs": runs,
        "startup_seconds": startup,
        "minutes": seconds / 60,
        "gpu_runs_per_second": runs / seconds,
        "errors": len(errors),
    }
    print(
        f"GPU: {runs} runs in {seconds:.0f} s, {runs / seconds:.1f} a second, {len(errors)} errors {errors[:1]}",
        flush=True,
    )
    cores = schedule.engine("processes", "cpu", None)
    done, spent, failed = timed_runs(plan, sample(blocks, options.cpu_blocks), cores)
    result |= {"cores": os.cpu_count(), "cpu_runs": done, "cpu_runs_per_second": done / spent}
    result["ratio"] = result["gpu_runs_per_second"] / result["cpu_runs_per_second"]
    result["cholesky_us"] = floor_ms() * 1e3
    print(f"{os.cpu_count()} cores: {done} runs in {spent:.0f} s, {done / spent:.1f} a second", flush=True)
    result["errors"] += len(failed)
    bars = {
        "errors": ("0", result["errors"] == 0),
        "minutes": ("≤ 0.33", result["minutes"] <= 20 / 60),
    }
    for key, (bar, holds) in bars.items():
        print(f"{key:24}{result[key]:>12.3g}{bar:>10}  {'' if holds else 'MISSED'}")
    print(f"{'ratio':24}{result['ratio']:>12.3g}")
    print(f"{'one Cholesky, µs':24}{result['cholesky_us']:>12.3g}")
    (HERE / "gpu.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(holds for _, holds in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
