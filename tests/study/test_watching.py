"""The watch of a database that refuses: it says so once, and nothing where Python is about to exit."""

import threading

import pytest

from kappasharp.errors import StorageError
from kappasharp.study import watching


class Refusing:
    def __init__(self):
        self.looked = threading.Semaphore(0)

    def heads(self):
        self.looked.release()
        raise StorageError("The disk is away.")


@pytest.mark.parametrize(
    ("is_over", "words"), [(False, ["What others answer is not seen for now: The disk is away."]), (True, [])]
)
def test_trouble_is_said_once_and_not_at_the_exit_of_python(is_over, words, monkeypatch, caplog):
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    monkeypatch.setattr(watching, "main_thread", lambda: ended if is_over else threading.current_thread())
    monkeypatch.setattr(watching, "LOOKING", 0.01)
    storage = Refusing()
    watch = watching.Watch(storage, print)
    watch.start()
    for _ in range(3):
        assert storage.looked.acquire(timeout=60)
    watch.close()
    assert caplog.messages == words
