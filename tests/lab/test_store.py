"""The folder of results: whole files or none, every key once, broken files set aside, claims die with their owner."""

import errno
import json
import os
import random
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kappasharp import files, parquet
from kappasharp.errors import InvalidValueError, KappaSharpError
from kappasharp.lab import store as lab_store
from kappasharp.lab.grid import missing
from kappasharp.lab.run import error_rows
from kappasharp.lab.store import SCHEMA, Store, StoreError
from tests.damage import flipped
from tests.lab import tiny
from tests.lab.tiny import rows_of

BLOCKS = tiny.blocks(seeds=3)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results").open()


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_round_trip(store):
    rows = rows_of(BLOCKS[0], final=float("nan"))
    path = store.write(BLOCKS[0].key, rows)
    assert path.name == f"{BLOCKS[0].key}.parquet"
    back = Store(store.folder).existing().read().to_pylist()
    assert [tiny.fingerprint(row) for row in back] == [tiny.fingerprint(row) for row in rows]
    assert store.done() == set(BLOCKS[0].keys) and store.has(BLOCKS[0].key) and not store.has(BLOCKS[1].key)
    assert missing(BLOCKS, store.done()) == BLOCKS[1:]


def test_a_file_of_an_older_version_is_read_and_its_runs_are_done(store):
    """Without the column of a later version, as written before it was there; a new file may stand beside it."""
    old = SCHEMA.remove(SCHEMA.get_field_index("n_points"))
    rows = rows_of(BLOCKS[0])
    pq.write_table(pa.Table.from_pylist(rows, schema=old), store.blocks / "old.parquet")
    store.write("new", [row | {"n_points": [6, 8]} for row in rows_of(BLOCKS[1])])
    assert missing(BLOCKS, store.done()) == [] and store.has("old")
    assert store.read(["n_points"])["n_points"].to_pylist() == [[6, 8]] * 3 + [None] * 3
    back = store.read().to_pylist()[3:]
    assert [tiny.fingerprint(row) for row in back] == [tiny.fingerprint(row | {"n_points": None}) for row in rows]


def test_some_columns_only(store):
    store.write("a", rows_of(BLOCKS[0], final=2.5))
    table = store.read(["seed", "final_best"])
    assert set(table.column_names) == {"seed", "final_best", "key", "status"}
    assert table["seed"].to_pylist() == [0, 1, 2] and table["final_best"].to_pylist() == [2.5] * 3


def test_an_empty_folder_of_results_reads_as_no_rows(store):
    assert store.read().num_rows == 0 and store.read().schema.equals(SCHEMA) and store.done() == set()


def test_a_file_is_parquet_with_our_mark_and_nothing_else_is_written(store):
    store.remember("tiny", tiny.TOML)
    path = store.write("a", rows_of(BLOCKS[0]))
    assert everything_in(store.folder) == ["blocks/a.parquet", "experiments/tiny.toml", "store.json"]
    assert path.read_bytes()[:4] == path.read_bytes()[-4:] == b"PAR1"
    assert pq.read_schema(path).metadata == {b"kappasharp schema": b"1", b"kappasharp checksum": b"blake2b"}
    assert json.loads((store.folder / "store.json").read_text()) == {"schema": 1}


def test_a_full_disk_leaves_nothing_behind_and_is_said(store, monkeypatch):
    store.write("before", rows_of(BLOCKS[1]))
    whole = pq.write_table

    def half(table, path, **options):
        whole(table, path, **options)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match=r"could not be written .*No space left on device") as caught:
        store.write("a", rows_of(BLOCKS[0]))
    assert isinstance(caught.value, KappaSharpError)
    assert everything_in(store.blocks) == ["before.parquet"] and store.done() == set(BLOCKS[1].keys)


def test_a_crash_in_the_middle_of_a_write_leaves_what_was_there(store, monkeypatch):
    store.write("a", rows_of(BLOCKS[0], final=1.0))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write("a", rows_of(BLOCKS[0], final=2.0))
    assert everything_in(store.blocks) == ["a.parquet"]
    assert store.read()["final_best"].to_pylist() == [1.0] * 3


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty", "footer"])
def test_a_broken_file_is_set_aside_said_and_its_runs_are_missing_again(store, damage):
    good, bad = (store.write(block.key, rows_of(block)) for block in BLOCKS)
    content = bad.read_bytes()
    broken = {
        "truncated": content[: len(content) // 2],
        "garbage": b"not a table at all\n" * 20,
        "empty": b"",
        "footer": content[:-200] + bytes(192) + content[-8:],
    }[damage]
    bad.write_bytes(broken)
    assert missing(BLOCKS, store.done()) == BLOCKS[1:]
    (aside,) = store.broken
    assert aside.suffix == ".broken" and aside.read_bytes() == broken and not bad.exists() and good.exists()
    assert aside.with_suffix(".broken.txt").read_text()
    store.write(BLOCKS[1].key, rows_of(BLOCKS[1]))
    assert missing(BLOCKS, Store(store.folder).open().done()) == []


def test_no_flipped_bit_is_read_as_if_nothing_had_happened(store):
    """Anywhere: in pages, in their headers, in the footer, in the checksum; in columns that are not asked for too."""
    good, bad = (store.write(block.key, rows_of(block)) for block in BLOCKS)
    content, mark = bad.read_bytes(), bad.read_bytes().index(parquet.MARK)
    size = 8 * len(content)
    bits = [0, 32, 8 * mark + 3, 8 * (mark + 30), *(size - back for back in (1, 40, 60, 70, 800))]
    bits += random.Random(0).sample(range(size), 60)
    for bit in bits:
        bad.write_bytes(flipped(content, bit))
        found = Store(store.folder).existing()
        assert missing(BLOCKS, found.done()) == BLOCKS[1:], bit
        (aside,) = found.broken
        assert aside.read_bytes() == flipped(content, bit) and aside.with_suffix(".broken.txt").exists()
    assert good.exists() and not store.has(BLOCKS[1].key)


def test_a_checksum_cut_out_of_a_file_is_missed(store):
    path = store.write("a", rows_of(BLOCKS[0]))
    before, mark, rest = path.read_bytes().rpartition(parquet.MARK)
    path.write_bytes(before + bytes(len(mark) + parquet.DIGEST_BYTES) + rest[parquet.DIGEST_BYTES :])
    assert store.done() == set()
    assert "the checksum is not there" in store.broken[0].with_suffix(".broken.txt").read_text()


def test_other_readers_of_parquet_are_not_disturbed_by_the_checksum(store):
    path = store.write("a", rows_of(BLOCKS[0]))
    assert pq.read_table(path, page_checksum_verification=True).to_pylist() == store.read().to_pylist()


def test_damage_to_a_file_from_before_the_checksum_is_never_a_bare_error(store):
    """Such files are read; what Parquet itself notices is set aside, or refused in a sentence."""
    path, chance = store.blocks / "old.parquet", random.Random(0)
    pq.write_table(pa.Table.from_pylist(rows_of(BLOCKS[0]), schema=SCHEMA), path)
    content = path.read_bytes()
    assert store.done() == set(BLOCKS[0].keys)
    names = [8 * content.rindex(name) + 7 for name in (b"final_best", b"n_points", b"status")]
    for bit in (*names, *chance.sample(range(8 * len(content)), 60)):
        path.write_bytes(flipped(content, bit))
        with suppress(StoreError):
            store.read()


def test_a_damaged_file_that_cannot_be_set_aside_is_said(store, monkeypatch):
    path = store.blocks / "a.parquet"
    path.write_bytes(b"not a table")

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(type(path), "replace", refuse)
    with pytest.raises(StoreError, match=r"a\.parquet` is damaged .* could not be set aside .*Permission denied"):
        store.done()
    assert path.exists()


def test_a_damaged_file_that_another_runner_sets_aside_first_is_left_to_it(store, monkeypatch):
    path = store.blocks / "a.parquet"
    path.write_bytes(b"not a table")

    def too_late(*_):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(type(path), "replace", too_late)
    assert store.done() == set() and store.broken == []


def test_a_second_broken_file_of_the_same_name_does_not_replace_the_first(store):
    for text in (b"one", b"two"):
        (store.blocks / "a.parquet").write_bytes(text)
        assert not store.has("a")
    assert {path.read_bytes() for path in store.broken} == {b"one", b"two"}


def test_a_file_that_the_system_cannot_read_now_is_not_called_broken(store, monkeypatch):
    path = store.write("a", rows_of(BLOCKS[0]))

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(pq, "ParquetFile", refuse)
        with pytest.raises(StoreError, match=r"could not be read .*Too many open files"):
            store.done()
    assert path.exists() and store.broken == [] and store.done() == set(BLOCKS[0].keys)


def test_a_file_that_another_runner_has_just_set_aside_is_passed_over(store, monkeypatch):
    store.write("a", rows_of(BLOCKS[0]))
    gone = store.blocks / "b.parquet"
    monkeypatch.setattr(type(gone), "glob", lambda *_: iter([gone, store.blocks / "a.parquet"]))
    assert store.done() == set(BLOCKS[0].keys) and store.broken == []


def test_a_key_in_two_files_is_counted_once(store):
    store.write("one", rows_of(BLOCKS[0]))
    store.write("two", rows_of(BLOCKS[0])[1:] + rows_of(BLOCKS[1]))
    keys = store.read()["key"].to_pylist()
    assert sorted(keys) == sorted((*BLOCKS[0].keys, *BLOCKS[1].keys))


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_run_that_failed_is_not_done_and_gives_way_to_one_that_did_run(store, names):
    store.write(names[0], error_rows(BLOCKS[0], "RuntimeError: no"))
    assert store.done() == set() and not store.has(names[0])
    assert store.read()["status"].to_pylist() == ["error"] * 3
    store.write(names[1], rows_of(BLOCKS[0])[:2])
    assert store.done() == set(BLOCKS[0].keys[:2])
    assert sorted(store.read()["status"].to_pylist()) == ["error", "ok", "ok"]


def test_a_status_word_of_the_solver_is_done(store):
    store.write("a", [row | {"status": "acquisition_not_converged"} for row in rows_of(BLOCKS[0])])
    assert store.done() == set(BLOCKS[0].keys) and store.has("a")


def test_results_of_another_schema_are_refused(store):
    (store.folder / "store.json").write_text('{"schema": 99}')
    with pytest.raises(StoreError, match="has results of schema 99, this version of kappasharp writes schema 1"):
        Store(store.folder).open()


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": [1]}),
        SCHEMA.remove(3).empty_table(),
        SCHEMA.with_metadata({"kappasharp schema": "99"}).empty_table(),
    ],
)
def test_a_file_of_another_schema_among_the_blocks_is_refused_and_kept(store, table):
    path = store.blocks / "other.parquet"
    pq.write_table(table, path)
    with pytest.raises(StoreError, match="holds no block of schema 1; move it to another folder"):
        store.done()
    assert path.exists()


def test_somebody_elses_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("by hand")
    with pytest.raises(StoreError, match=r"is not empty and holds no kappasharp results \(no store.json\)"):
        Store(tmp_path).open()
    assert everything_in(tmp_path) == ["thesis.tex"]
    with pytest.raises(StoreError, match="holds no kappasharp results; `kappasharp run` makes such a folder"):
        Store(tmp_path / "none").existing()


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"other": 1}'])
def test_a_damaged_marker_is_said(store, content):
    (store.folder / "store.json").write_text(content)
    with pytest.raises(StoreError, match=r"store\.json` is damaged"):
        Store(store.folder).open()


def test_two_may_open_a_new_folder_at_once(tmp_path, monkeypatch):
    """The other one comes between the look and the writing, at each of its own steps."""
    write = files.write_text

    def meanwhile(path, text):
        (tmp_path / f".{path.name}.other.tmp").touch()
        with monkeypatch.context() as patched:
            patched.setattr(lab_store, "write_text", write)
            Store(tmp_path).open()
        write(path, text)

    with monkeypatch.context() as patched:
        patched.setattr(lab_store, "write_text", meanwhile)
        Store(tmp_path).open()
    assert Store(tmp_path).open().done() == set()


def test_a_folder_whose_making_was_cut_short_can_be_opened(tmp_path):
    files.write_text(tmp_path / "store.json", '{"schema": 1}')
    store = Store(tmp_path).open()
    store.write("a", rows_of(BLOCKS[0]))
    assert store.done() == set(BLOCKS[0].keys)


def test_another_experiment_of_the_same_name_is_refused(store):
    store.remember("tiny", tiny.TOML)
    store.remember("tiny", tiny.TOML)
    store.remember("other", "")
    with pytest.raises(InvalidValueError, match="holds results of another experiment called 'tiny'"):
        store.remember("tiny", tiny.TOML.replace("modern", "paper"))
    assert [path.stem for path in store.experiments()] == ["other", "tiny"]
    assert (store.folder / "experiments" / "tiny.toml").read_text() == tiny.TOML


def owned(store, **changes):
    owner = {"host": socket.gethostname(), "process": os.getpid()} | changes
    path = store.folder / "claims" / "a"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(owner))
    return path


def test_a_claim_is_held_by_one(store):
    assert store.claim("a") and store.claim("b")
    assert not store.claim("a") and not Store(store.folder).claim("a")
    store.release("a")
    store.release("a")
    assert store.claim("a")


def test_a_dead_processs_claim_is_taken_over(store):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    owned(store, process=gone.pid)
    assert store.claim("a") and not store.claim("a")


def test_a_dead_claim_on_a_stored_block_is_forgotten(store):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = owned(store, process=gone.pid)
    store.forget_dead_claims()
    assert path.exists()  # its block is not stored: whoever runs it takes the claim over
    block = store.blocks / "a.parquet"
    block.touch()
    store.forget_dead_claims()
    assert not path.exists()
    assert store.claim("a")
    store.forget_dead_claims()
    assert not store.claim("a")  # a living runner's claim stays


def test_a_claim_from_another_machine_holds_until_it_is_old(store):
    path = owned(store, host="elsewhere", process=2**22)
    assert not store.claim("a")
    long_ago = time.time() - lab_store.STALE_SECONDS - 1.0
    os.utime(path, (long_ago, long_ago))
    assert store.claim("a") and not store.claim("a")


@pytest.mark.parametrize("content", ["", '{"host": ', "[]", "null"])
def test_a_claim_just_being_written_holds_until_it_is_old(store, content):
    path = owned(store)
    path.write_text(content)
    assert not store.claim("a")
    os.utime(path, (0.0, 0.0))
    assert store.claim("a")


def test_a_process_of_another_user_is_alive(store, monkeypatch):
    def not_allowed(*_):
        raise PermissionError

    monkeypatch.setattr(os, "kill", not_allowed)
    owned(store)
    assert not store.claim("a")


def test_a_claim_whose_making_was_killed_half_way_is_forgotten_at_once(tmp_path):
    """Nothing is in the file yet, so its name says whose it was."""
    store = Store(tmp_path / "results").open()
    claims = store.folder / "claims"
    claims.mkdir(exist_ok=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = socket.gethostname()
    owners = {"dead": (here, ended.pid), "alive": (here, os.getpid()), "elsewhere": ("another.host", ended.pid)}
    made = {name: claims / f".{name}.{host}.{process}.0a.tmp" for name, (host, process) in owners.items()}
    for path in (*made.values(), old := claims / ".block.0a.tmp"):
        path.touch()
    store.forget_dead_claims()
    assert {path for path in claims.iterdir()} == {made["alive"], made["elsewhere"], old}
