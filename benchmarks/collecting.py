"""Experiments run to one small file: the runs of many blocks, packed as they come, within a time if need be."""

import contextlib
import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.gpu import start_mps, stop_mps
from kappasharp.lab import schedule
from kappasharp.lab.run import run_together
from kappasharp.lab.schedule import Limit
from kappasharp.problems import simulated_voters

SCHEMA = pa.schema(
    [
        (name, pa.dictionary(pa.int32(), pa.string()))
        for name in ("problem", "method", "preset", "status", "commit", "person")
    ]
    + [(name, pa.int32()) for name in ("seed", "failed_steps", "queries")]
    + [(name, pa.list_(pa.float32())) for name in ("seen", "told")]
    + [("seconds", pa.float32())]
)


def packed(row):
    """What is kept of one run: the best utility seen and the one told, after every question."""
    who = simulated_voters.Person(**json.loads(row["person"]))
    names = {"person": next(name for name, person in simulated_voters.PERSONS.items() if person == who)}
    kept = ("problem", "method", "preset", "seed", "status", "failed_steps", "commit", "queries", "seconds")
    return {name: row[name] for name in kept} | names | {"seen": row["best_utility"], "told": row["told_utility"]}


def collect(blocks, options, pack, schema, work=run_together):
    """The runs of these blocks, each packed as soon as it is there, in `options.out`; what is left out is said.

    `work` makes a batch's rows of its blocks and a device.
    """
    jobs = schedule.jobs(blocks, Limit(options.batch))
    total, rows, errors, shown = sum(len(block.seeds) for block in blocks), [], [], 0.0
    begin = time.perf_counter()
    with contextlib.ExitStack() as ending:
        if options.device == "cuda" and start_mps():
            ending.callback(stop_mps)
        outcomes = schedule.processes(jobs, options.device, options.workers, work)
        for outcome in outcomes:
            rows += [pack(row) for part in outcome.rows or [] for row in part]
            errors += [outcome.error] if outcome.error else []
            spent = time.perf_counter() - begin
            if spent - shown > 10.0 or len(rows) == total:
                shown = spent
                # What there is stays, whatever ends this.
                write(pa.Table.from_pylist(rows, schema), options.out)
                print(f"{len(rows)} of {total} runs, {spent:.0f} s, {len(errors)} errors {errors[:1]}", flush=True)
            if options.seconds and spent > options.seconds:
                print(f"stopped after {spent:.0f} s with {len(rows)} of {total} runs", flush=True)
                break
        # Before anything is closed: what was run must not wait for that.
        write(pa.Table.from_pylist(rows, schema), options.out)
        print(f"{len(rows)} runs in {options.out}, {Path(options.out).stat().st_size / 1e6:.1f} MB", flush=True)
        outcomes.close()


def write(table, path):
    """A small file: names as numbers, and the bytes of floating-point numbers side by side."""
    names = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    split = [name for field in table.schema for name in _floats(field)]
    pq.write_table(
        table, path, compression="zstd", compression_level=19, use_dictionary=names, use_byte_stream_split=split
    )


def _floats(field):
    if pa.types.is_list(field.type) and pa.types.is_floating(field.type.value_type):
        return [f"{field.name}.list.element"]
    return [field.name] if pa.types.is_floating(field.type) else []
