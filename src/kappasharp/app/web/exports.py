"""What leaves the server as a file or in pieces: exports of a study, and the bytes of a card."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from starlette.responses import Response

from kappasharp.app import report
from kappasharp.app.web import guard, responses
from kappasharp.app.web.jobs import snapshot
from kappasharp.app.web.rendering import Card
from kappasharp.errors import InvalidValueError, named
from kappasharp.study.study import Study

RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")
TYPES = {
    ".json": "application/json", ".csv": "text/csv; charset=utf-8", ".parquet": "application/vnd.apache.parquet",
    ".html": "text/html; charset=utf-8", ".py": "text/x-python; charset=utf-8",
}  # fmt: skip
# A report opened from here is still a stranger to the page: no script, nothing from elsewhere.
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def _exported(ending: str, table: str = "comparisons") -> Callable[[Study], bytes]:
    def make(study: Study) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return study.export(Path(folder) / f"study{ending}", table=table).read_bytes()

    return make


def _report(study: Study) -> bytes:
    if not study.history.counted():
        raise InvalidValueError("A report needs an answer; there is none yet.")
    return report.html(study).encode()


# Address -> what is made, the file's ending, and what its name says beside the study's.
KINDS: dict[str, tuple[Callable[[Study], bytes], str, str]] = {
    "json": (_exported(".json"), ".json", ""),
    "csv": (_exported(".csv"), ".csv", "-answers"),
    "options": (_exported(".csv", "options"), ".csv", "-designs"),
    "parquet": (_exported(".parquet"), ".parquet", "-answers"),
    "html": (_report, ".html", "-report"),
    "python": (lambda study: responses.python(study, snapshot(study)).encode(), ".py", ""),
}


def export(study: Study, kind: str) -> Response:
    """The study as a file to download."""
    make, ending, suffix = named("export", kind, KINDS)
    name = re.sub(r"[^\w.-]+", "-", study.name, flags=re.ASCII).strip("-.") or "study"
    full = quote(f"{study.name}{suffix}{ending}", safe="")
    headers = {
        "content-disposition": f"attachment; filename=\"{name}{suffix}{ending}\"; filename*=UTF-8''{full}",
        "content-security-policy": REPORT_POLICY,
    }
    return Response(make(study), media_type=TYPES[ending], headers=headers)


def media(card: Card, wanted: str | None) -> Response:
    """The bytes of a card, or the range of them that a player asks for."""
    # The address holds a digest of what is drawn: what it names never changes.
    headers = {
        "content-security-policy": guard.PICTURE_POLICY,
        "cache-control": "private, max-age=86400, immutable",
        "accept-ranges": "bytes",
    }
    total = len(card.body)
    found = RANGE.fullmatch(wanted or "")
    if found is None or found.groups() == ("", ""):
        return Response(card.body, media_type=card.type, headers=headers)
    first, last = found.groups()
    start = int(first) if first else max(total - int(last), 0)
    end = min(int(last), total - 1) if first and last else total - 1
    if start > end:
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{total}"})
    headers["content-range"] = f"bytes {start}-{end}/{total}"
    return Response(card.body[start : end + 1], 206, media_type=card.type, headers=headers)
