"""Requests that nobody means: a random method, address, header and body, from a generator with a fixed seed."""

import json
import re
import string

from tests.web.doubles import WRITE

ENDS = [
    "pair",
    "standing",
    "best",
    "model",
    "history",
    "team",
    "team/before",
    "card/0",
    "line/1",
    "picture/0",
    "frame/0",
    "export/json",
    "export/python",
]
GETS = ["/", "/static/app.js", "/api/studies", "{one}", *(f"{{one}}/{end}" for end in ENDS)]
WRITES = ["answer", "undo", "amend", "again", "challenge", "weights"]
POSTS = ["/api/studies", "/api/rehearsal", *(f"{{one}}/{end}" for end in WRITES)]
WORDS = ["", "a", "b", "tie", "skip", "me", "pair", "-1", "0", "1", "2", "99999999999999999999", "../..", "%00"]
WORDS += [
    "\u202e",
    "null",
    "<script>",
    "'; drop table kappasharp_events; --",
    "𝕏" * 40,
    "x" * 5000,
    "\ud800",
    "{}",
    "NaN",
]
KEYS = ["pair", "answer", "seconds", "voter", "event", "params", "option", "name", "parameters", "toml", "renderer"]
KEYS += ["person", "questions", "study", "method", "x", "kind", "question", "place"]
# Right now and then, whatever is sent: they would change something, or take their time.
TOO_GOOD = ("/api/rehearsal", "{one}/again", "{one}/undo")


def filled(study, path):
    """An address, for the study of that identity."""
    return path.format(one=f"/api/studies/{study}")


def text(chance):
    if chance.random() < 0.7:
        return WORDS[chance.integers(len(WORDS))]
    letters = string.printable
    return "".join(letters[i] for i in chance.integers(len(letters), size=chance.integers(20)))


def value(chance, depth=0):
    kind = chance.integers(9 if depth < 2 else 6)
    if kind < 2:
        return text(chance)
    if kind == 2:
        return int(chance.integers(-5, 40))
    if kind == 3:
        return float(chance.normal() * 10.0 ** chance.integers(-3, 20))
    if kind < 6:
        return [None, True, False][chance.integers(3)]
    if kind == 6:
        return [value(chance, depth + 1) for _ in range(chance.integers(4))]
    return {text(chance)[:30]: value(chance, depth + 1) for _ in range(chance.integers(4))}


def body(chance):
    if chance.random() < 0.15:
        return chance.bytes(chance.integers(200))
    data = {KEYS[i]: value(chance) for i in chance.integers(len(KEYS), size=chance.integers(6))}
    # Whatever else is wrong with it, its answer is none of the four, so that nothing of it may be stored.
    data["answer"] = f"not {data.get('answer')}"[:50]
    content = json.dumps(data).encode()
    return content[: chance.integers(len(content))] if chance.random() < 0.1 else content


def plain(words):
    """What a header or a path may hold."""
    return re.sub(r"[^\x21-\x7e]|[#?\\]", "", words)


def one_request(chance, study):
    """A request as httpx takes it; it may be about the study of that identity."""
    posting = chance.random() < 0.6
    shapes = [path for path in (POSTS if posting else GETS) if path not in TOO_GOOD]
    path = filled(study, shapes[chance.integers(len(shapes))])
    if chance.random() < 0.25:
        path = "/" + "/".join(plain(text(chance))[:60] for _ in range(chance.integers(1, 6)))
    made = {"method": "POST" if posting else "GET", "url": re.sub("/+", "/", path), "headers": {}}
    if posting:
        made["content"] = body(chance)
        made["headers"] = dict(WRITE) if chance.random() < 0.8 else {}
    elif chance.random() < 0.1:
        made["method"] = ["HEAD", "PUT", "DELETE", "OPTIONS"][chance.integers(4)]
    if chance.random() < 0.1:
        made["headers"]["range"] = f"bytes={plain(text(chance))[:5]}-"
    if chance.random() < 0.05:
        made["headers"]["cookie"] = plain(text(chance))[:100]
    # A new voter is asked a pair, and that is an event.
    if chance.random() < 0.1 and not path.endswith("/pair"):
        made["params"] = {"voter": text(chance).encode("utf-8", "replace").decode()}
    return made
