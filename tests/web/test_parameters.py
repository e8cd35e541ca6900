"""What the page arranges beside answers: parameters, notes, comparisons from a file, names, studies that go."""


def _best_after(browser, answers):
    for _ in range(answers):
        pair = browser.pair("me")
        better = "a" if pair["a"]["params"]["x"] > pair["b"]["params"]["x"] else "b"
        browser.answer(pair, better, "me")


def test_a_parameter_is_narrowed_locked_widened_and_taken_back(browser):
    _best_after(browser, 6)
    rows = {one["name"]: one for one in browser.get(browser.at("parameters")).json()["parameters"]}
    assert rows.keys() == {"x", "y"} and not any(one["locked"] for one in rows.values())
    low, high = rows["x"]["ever"]["low"], rows["x"]["ever"]["high"]
    middle = (low + high) / 2
    shown = browser.pair("me")
    assert shown["can_undo"] and shown["undoes_answer"]
    changed = browser.post(browser.at("parameters"), {"name": "x", "change": "lock", "value": middle})
    assert changed.status_code == 200 and changed.json()["parameters"][0]["locked"]
    # A question about what is not open any more is withdrawn; the next one keeps the lock.
    stale = browser.post(browser.at("answer"), {"pair": shown["number"], "answer": "a", "voter": "me"})
    assert stale.status_code == 409 and stale.json()["pair"]["a"]["params"]["x"] == middle
    # Compare takes back answers alone, and says so where a change came last.
    assert stale.json()["pair"]["can_undo"] and not stale.json()["pair"]["undoes_answer"]
    assert stale.json()["why"] == "changed" and "because a parameter was changed" in stale.json()["error"]
    refused = browser.post(browser.at("parameters"), {"name": "x", "change": "narrow", "low": low - 1})
    assert refused.status_code == 400 and "widen" in refused.json()["error"]
    assert browser.post(browser.at("parameters"), {"name": "x", "change": "shrink"}).status_code == 400
    browser.post(browser.at("undo"), {"voter": "me"})
    assert not browser.get(browser.at("parameters")).json()["parameters"][0]["locked"]
    wider = browser.post(browser.at("parameters"), {"name": "x", "change": "widen", "high": high + 1}).json()
    assert wider["parameters"][0]["open"]["high"] == high + 1


def test_notes_and_past_comparisons(browser):
    _best_after(browser, 2)
    browser.post(browser.at("note"), {"option": 0, "text": "too <b>thin</b>", "voter": "ann"})
    assert browser.get(browser.at("notes")).json()["notes"] == [
        {"option": 0, "voter": "ann", "text": "too <b>thin</b>"}
    ]
    assert browser.post(browser.at("note"), {"option": 0, "text": " ", "voter": "ann"}).json() == {"notes": []}
    exported = browser.get(browser.at("export/csv")).text
    assert browser.post(browser.at("import"), {"csv": exported}).json() == {"comparisons": 2, "answers": 2, "skips": 0}
    bad = browser.post(browser.at("import"), {"csv": "a.x,a.y,b.x,b.y,answer\n0,0,1,1,a\n0,0,1,1,who\n"})
    assert bad.status_code == 400 and "line 3" in bad.json()["error"] and "Nothing was stored" in bad.json()["error"]
    assert browser.get("/api/counts").json()["studies"][0]["answers"] == 4
    big = browser.post(browser.at("import"), {"csv": "x" * (5 * 1024 * 1024)})
    assert big.status_code == 413


def test_a_study_is_renamed_and_deleted_under_others(browser):
    """Others know it by its identity: after a new name they go on, after its end they are told."""
    _best_after(browser, 1)
    assert browser.post(browser.at("rename"), {"name": " "}).status_code == 400
    assert browser.post(browser.at("rename"), {"name": "liking"}).json() == {"name": "liking"}
    _best_after(browser, 1)
    assert browser.get(f"/api/studies/{browser.study}").json()["name"] == "liking"
    browser.post("/api/studies", {"name": "other", "parameters": {"x": [1, 2]}})
    assert browser.post(browser.at("rename"), {"name": "other"}).status_code == 409
    assert browser.post(browser.at("delete"), {"name": "taste"}).status_code == 400
    assert browser.post(browser.at("delete"), {"name": "liking"}).json() == {"done": True}
    for gone in (browser.get(browser.at("pair?voter=me")), browser.get(f"/api/studies/{browser.study}")):
        assert gone.status_code == 404 and "deleted" in gone.json()["error"]
    assert [one["name"] for one in browser.get("/api/counts").json()["studies"]] == ["other"]


def test_the_page_follows_a_name_that_was_given_elsewhere(browser):
    """By a link to the new name and by one to the old; a name that another study took is that one's."""

    def named(name):
        return browser.get(f"/api/studies?study={name}").json()

    assert named("taste")["study"]["name"] == "taste"
    session, storage = browser.service.session(browser.study), browser.service.storage
    storage.rename(session.study.stored, "liking")
    assert named("liking")["study"]["name"] == named("taste")["study"]["name"] == session.study.name == "liking"
    _best_after(browser, 1)
    browser.post("/api/studies", {"name": "taste", "parameters": {"x": [1, 2]}})
    assert named("taste")["study"]["id"] != browser.study and named("nobody")["unknown"] == "nobody"


def test_a_study_that_was_deleted_elsewhere_is_told(browser):
    session = browser.service.session(browser.study)
    browser.service.storage.delete(session.study.stored)
    gone = browser.get(browser.at("pair?voter=me"))
    assert gone.status_code == 404 and "somebody deleted it" in gone.json()["error"]
