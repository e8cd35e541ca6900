"""Nobody gets in without the key, from another host, or from another site; and nothing that is sent breaks anything."""

import asyncio
import json
import re

import numpy as np
import pytest

from kappasharp.web import guard
from kappasharp.web.responses import assets
from tests.web import fuzz
from tests.web.doubles import HOST, SPACE, TOKEN, WRITE, events, service
from tests.web.fuzz import GETS, POSTS

FOREIGN = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8642", "", "[::1", "a@b"]
FUZZED = 2_500
PATHS = ["/static/../server.py", "/static/..%2f..%2fserver.py", "/static/%2e%2e/%2e%2e/pyproject.toml", "/.."]
PATHS += ["/static//etc/passwd", "/static/....//x", "/static/app.js%00.css", "/api/studies/../../etc", "//"]
PATHS += ["/api/studies/%2e%2e/pair"]


def filled(browser, path):
    return fuzz.filled(browser.study, path)


def leaks(answer, browser):
    """Whether an answer tells anything about the study or the key."""
    told = answer.text + json.dumps(dict(answer.headers))
    return [word for word in (TOKEN, "taste", browser.study, "Traceback", "site-packages") if word in told]


@pytest.mark.parametrize("path", [path for path in GETS if not path.startswith("/static/")])
def test_nothing_is_read_without_the_key(stranger, path):
    answer = stranger.get(filled(stranger, path))
    assert answer.status_code == 401
    assert "link" in answer.text and leaks(answer, stranger) == []


@pytest.mark.parametrize("path", POSTS)
def test_nothing_is_written_without_the_key(stranger, path):
    before = events(stranger.service)
    answer = stranger.post(filled(stranger, path), {"voter": "me"})
    assert answer.status_code == 401 and leaks(answer, stranger) == []
    assert events(stranger.service) == before


@pytest.mark.parametrize("wrong", ["", TOKEN[:-1], TOKEN.upper(), TOKEN + "0", "ü" * 48])
def test_a_wrong_key_is_no_key(stranger, wrong):
    assert stranger.get("/", params={"token": wrong}).status_code == 401
    cookie = {"cookie": f"kappasharp_{TOKEN[:6]}={wrong}".encode()}
    assert stranger.get("/", headers=cookie).status_code == 401


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_cannot_use(stranger, opened):
    answer = stranger.get("/", params={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 200
    assert TOKEN in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    assert stranger.get("/api/studies").status_code == 200
    # Only the page's own address takes the key from a link: a file's address might be passed on.
    assert opened(signed_in=False).get("/api/studies", params={"token": TOKEN}).status_code == 401


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_is_refused(browser, host):
    before = events(browser.service)
    assert browser.get("/api/studies", headers={"host": host}).status_code == 400
    assert browser.post(browser.at("undo"), {"voter": "me"}, headers={"host": host}).status_code == 400
    assert events(browser.service) == before


@pytest.mark.parametrize("host", ["localhost:8642", "127.0.0.1", "[::1]:8642", "LOCALHOST"])
def test_the_own_host_is_served(browser, host):
    assert browser.get("/api/studies", headers={"host": host}).status_code == 200


def test_listening_everywhere_takes_addresses_and_own_names_but_no_others(opened):
    browser = opened(hosts=guard.allowed_hosts("0.0.0.0"))
    assert browser.get("/", headers={"host": "192.168.0.7:8642"}).status_code == 200
    assert browser.get("/", headers={"host": "localhost"}).status_code == 200
    assert browser.get("/", headers={"host": "evil.example"}).status_code == 400
    browser.client.cookies.clear()
    assert browser.get("/", headers={"host": "192.168.0.7:8642"}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"x-kappasharp": ""},
        {"x-kappasharp": "0"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": HOST.replace("http", "https")},
        {"origin": HOST.replace("http", "ftp")},
        {"origin": HOST.removeprefix("http:")},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_a_write_from_another_site_is_refused(browser, headers):
    pair = browser.pair()
    before = events(browser.service)
    data = json.dumps({"pair": pair["number"], "answer": "a", "voter": "me"})
    answer = browser.request("POST", browser.at("answer"), content=data, headers=WRITE | headers)
    assert answer.status_code == 403
    assert events(browser.service) == before


def test_our_own_page_may_write(browser):
    headers = {"origin": HOST, "sec-fetch-site": "same-origin"}
    data = {"pair": browser.pair()["number"], "answer": "a", "seconds": 2, "voter": "me"}
    assert browser.post(browser.at("answer"), data, headers=headers).status_code == 200


@pytest.mark.parametrize("size", [guard.MOST_BODY + 1, 10 * guard.MOST_BODY])
def test_a_large_body_is_refused_by_its_length_and_by_its_size(browser, size):
    content = b'{"voter": "' + b"x" * size + b'"}'

    async def in_pieces():
        for at in range(0, len(content), 4096):
            yield content[at : at + 4096]

    for body in (content, in_pieces()):
        assert browser.request("POST", browser.at("undo"), content=body, headers=WRITE).status_code == 413
    lying = WRITE | {"content-length": "9" * 30}
    assert browser.request("POST", browser.at("undo"), content=b"{}", headers=lying).status_code == 413


def test_a_body_that_does_not_arrive_is_given_up(browser, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def in_drops():
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    answer = browser.request("POST", browser.at("undo"), content=in_drops(), headers=WRITE)
    assert answer.status_code == 408 and "within 0.05 seconds" in answer.text
    assert answer.headers["connection"] == "close"


MALFORMED = [
    b"", b"{", b"[]", b"null", b"1", b'"a"', b"\xff\xfe", b'{"pair": NaN}', b'{"pair": Infinity}', b"[" * 20000,
    b'{"pair": ' + b"9" * 400 + b"}", b'{"pair": 1e999, "answer": "a", "voter": "me"}', b'{"pair": true}',
    b'{"pair": "1", "answer": "a", "voter": "me"}', b'{"pair": 1, "answer": "c", "voter": "me"}',
    b'{"pair": 1, "answer": {}, "voter": "me"}', b'{"pair": 1, "answer": "a", "voter": ""}',
    b'{"pair": 1, "answer": "a", "voter": null}', b'{"pair": 1, "answer": "a", "voter": "\\ud800"}',
    b'{"pair": 1, "answer": "a", "voter": "a\\nb"}', b'{"pair": 999, "answer": "a", "voter": "me"}',
    b'{"pair": 1, "answer": "a", "voter": "me", "seconds": -1}',
    b'{"pair": 1, "answer": "a", "voter": "me", "seconds": "long"}',
]  # fmt: skip


def _right_for(path, body):
    """To ask again takes a pair and a voter; what is wrong with an answer beside them is nothing to it."""
    return path.endswith("/again") and b'{"pair": 1, ' in body and b'"me"' in body


@pytest.mark.parametrize("path", POSTS)
def test_a_malformed_body_is_a_sentence_and_changes_nothing(browser, path):
    browser.pair()
    before = events(browser.service)
    for body in MALFORMED:
        if _right_for(path, body):
            continue
        answer = browser.request("POST", filled(browser, path), content=body, headers=WRITE)
        assert 400 <= answer.status_code < 500, (body[:80], answer.text)
        assert answer.json()["error"] and "Traceback" not in answer.text, body[:80]
        assert events(browser.service) == before, body[:80]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_leads_nowhere_else(browser, path):
    answer = browser.get(path)
    assert answer.status_code in (200, 404)
    assert "import" not in answer.text or answer.headers["content-type"].startswith("text/javascript")
    assert "root:" not in answer.text and "hatchling" not in answer.text


def test_what_people_write_is_never_markup(opened):
    """Names of parameters, studies and voters come out as JSON alone."""
    script = "<script>alert(1)</script>"
    browser = opened(service(space={script: (0.0, 1.0), "y": ["<img src=x onerror=alert(1)>", "b"]}, name=script))
    pair = browser.pair(voter=script)
    assert browser.answer(pair, "a", voter=script).status_code == 200
    for path in ("pair?voter=" + script, "history", "standing", "model", "best", "export/json"):
        answer = browser.get(browser.at(path))
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    report = browser.get(browser.at("export/html"))
    assert script not in report.text and "&lt;script&gt;" in report.text
    assert "attachment" in report.headers["content-disposition"] and script not in report.headers["content-disposition"]


def test_the_pages_own_scripts_never_make_html_of_text():
    sources = {name: body.decode() for name, body in assets().items() if name.endswith((".js", ".html"))}
    makes_html = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(")
    found = [name for name, source in sources.items() if makes_html.search(source)]
    assert found == [] and len(sources) > 8
    outside = {name: re.findall(r"https?://[^\s\"'`)]+", source) for name, source in sources.items()}
    assert {name: links for name, links in outside.items() if links} == {"elements.js": ["http://www.w3.org/2000/svg"]}
    assert "<script>" not in sources["index.html"] and "style=" not in sources["index.html"]


def test_every_answer_carries_strict_headers(browser):
    for path in ("/", "/static/app.js", "/api/studies", "/nowhere"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_fuzzed_requests_break_nothing_and_change_nothing(opened):
    """`make faults` sends twice as many to a server in a process of its own."""
    browser = opened(service(space=SPACE | {"z": ["p", "q"]}))
    for _ in range(3):
        browser.answer(browser.pair(), "a")
    browser.pair()
    chance = np.random.default_rng(6)
    strangers = opened(browser.service, signed_in=False)
    before = events(browser.service)
    asked = {}

    async def all_of_them():
        for count in range(FUZZED):
            who = strangers if count % 10 == 0 else browser
            given = fuzz.one_request(chance, browser.study)
            answer = await who.client.request(**given)
            asked[answer.status_code] = asked.get(answer.status_code, 0) + 1
            assert answer.status_code < 500, (given, answer.text)
            assert TOKEN not in answer.text and "Traceback" not in answer.text and TOKEN not in str(answer.headers)
            if who is strangers:
                file = given["url"] == "/static/app.js" and answer.status_code in (200, 206)
                assert (file or answer.status_code in (400, 401, 405)) and leaks(answer, browser) == [], (
                    given,
                    answer.text,
                )

    browser.run(all_of_them())
    created = [name for name, _ in events(browser.service) if name not in dict(before)]
    assert [row for row in events(browser.service) if row[0] not in created] == before
    assert sum(asked.values()) == FUZZED and {200, 400, 401, 403, 404} <= set(asked)
