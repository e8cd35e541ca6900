"""What each role may do is one table: every address is in it, every role meets it; and people who were invited."""

import asyncio
import json
import re

import pytest
from starlette.routing import Route

from kappasharp.errors import NotAllowedError
from kappasharp.store import invites
from kappasharp.study import collection
from kappasharp.web import access, guard, live_updates
from tests.web.doubles import SPACE, events

# From the least to the most; strangers came by no link.
WHO = ("stranger", "viewer", "voter", "owner", "key")
NEEDS = {access.ANYBODY: 0, access.GUEST: 1, access.VIEWER: 1, access.VOTER: 2, access.OWNER: 3, access.KEY: 4}


@pytest.fixture
def everybody(browser):
    """One client for each of them."""
    people = {role: browser.came_by(role, f"{role} Bea") for role in ("viewer", "voter", "owner")}
    return {"stranger": browser.stranger(), "key": browser} | people


def allowed(browser, name):
    """Whether an address lets somebody through, whatever it then says of what they ask."""
    method, path = name.split()
    path = re.sub(r"\{(\w+)(:int)?\}", "7", path.replace("{study}", browser.study).replace("{name}", "app.js"))
    answer = browser.get(path) if method == "GET" else browser.post(path, {})
    assert answer.status_code != 500
    return answer.status_code not in (401, 403)


def test_every_address_is_in_the_table_and_every_role_meets_it(everybody, monkeypatch):
    # A stream that is begun has no end.
    monkeypatch.setattr(live_updates, "MOST_STREAMS", 0)
    served = {f"{'POST' if 'POST' in one.methods else 'GET'} {one.path}" for one in everybody["key"].app.routes}
    assert served == set(access.RIGHTS) and len(served) > 40
    for name, right in access.RIGHTS.items():
        found = [who for who in WHO if allowed(everybody[who], name)]
        assert found == list(WHO[NEEDS[right] :]), name
    with pytest.raises(NotAllowedError, match="'GET /new'"):
        access.guarded([Route("/new", allowed)])


def test_a_role_is_of_one_study(everybody):
    """Another study of the same server is to them as if it were not there."""
    browser = everybody["key"]
    other = collection.create_study(SPACE, storage=browser.service.storage, study_name="secret plans").stored.uid
    for who in ("viewer", "voter", "owner"):
        one = everybody[who]
        listing = one.get("/api/studies").json()
        assert [row["name"] for row in listing["studies"]] == ["taste"] and listing["study"]["name"] == "taste"
        assert (listing["renderers"], listing["storage"], listing["study"]["role"]) == ([], "", who)
        assert one.get("/api/studies", params={"study": "secret plans"}).json()["unknown"] == "secret plans"
        for answer in (one.get(f"/api/studies/{other}"), one.post(f"/api/studies/{other}/undo", {})):
            assert answer.status_code == 404 and "secret" not in answer.text
        assert one.get("/api/news", params={"study": other}).status_code == 404
        assert one.post(f"/api/studies/{other}/invites", {"role": "owner"}).status_code == 404


def test_a_voter_has_own_answers_only_and_an_owner_all(everybody):
    voter, owner, key = everybody["voter"], everybody["owner"], everybody["key"]
    mine = voter.answer(voter.pair("voter Bea"), "a", "voter Bea").json()["saved"]["event"]
    other = key.answer(key.pair(), "b").json()["saved"]["event"]
    before = events(key.service)
    pair = key.pair()["number"]
    for path, data in (
        ("amend", {"event": other, "answer": None}),
        ("amend", {"event": other, "answer": None, "voter": "voter Bea"}),
        ("undo", {"voter": "owner Bea"}),
        ("again", {"pair": pair}),
        ("answer", {"pair": pair, "answer": "a", "voter": "owner Bea"}),
        ("note", {"option": 0, "text": "x", "voter": "owner Bea"}),
    ):
        refused = voter.post(voter.at(path), data)
        assert refused.status_code == 403 and refused.json()["error"], (path, data)
    assert voter.get(voter.at("pair"), params={"voter": "owner Bea"}).status_code == 403
    # Nobody answers another's question, and where nothing is said of who it is, it is who came by the link.
    assert voter.answer({"number": pair}, "a", "voter Bea").status_code == 409
    assert events(key.service)[0][1] <= before[0][1] + 1
    assert voter.get(voter.at("pair")).json()["pair"]["voter"] == "voter Bea"
    assert voter.post(voter.at("amend"), {"event": mine, "answer": "b"}).status_code == 200
    assert voter.post(voter.at("undo"), {}).status_code == 200
    assert owner.post(owner.at("amend"), {"event": other, "answer": None}).status_code == 200
    assert owner.post(owner.at("amend"), {"event": other, "answer": "a"}).status_code == 200
    assert owner.post(owner.at("undo"), {"voter": "me"}).status_code == 400  # their own: they have none
    assert owner.get(owner.at("pair")).json()["pair"]["voter"] == "owner Bea"


def test_a_link_made_on_the_page_lets_in_by_a_cookie_and_tells_before(browser, stranger):
    made = browser.post(browser.at("invites"), {"role": "voter"}).json()
    address, _, code = made["link"].partition("#")
    assert address == "http://127.0.0.1:8642/join" and made["picture"].startswith("data:image/svg+xml")
    assert made["reach"] == {"address": "http://127.0.0.1:8642/", "to_others": False, "encrypted": False}
    one = browser.stranger()
    assert one.get("/join").status_code == 200 and one.get("/join").headers["referrer-policy"] == "no-referrer"
    told = one.post("/api/invited", {"secret": code}).json()
    assert told == {"study": "taste", "role": "voter", "already": None}
    joined = one.post("/api/join", {"secret": code, "name": "Anna"})
    cookie = joined.headers["set-cookie"]
    assert joined.json() == {"study": "taste", "role": "voter"} and code not in str(joined.headers)
    assert "HttpOnly; SameSite=Strict; Path=/" in cookie and "Secure" not in cookie
    over_https = browser.stranger().post("https://127.0.0.1:8642/api/join", {"secret": code, "name": "Berta"})
    assert "; Secure" in over_https.headers["set-cookie"]
    assert one.post("/api/invited", {"secret": code}).json()["already"] == {"role": "voter", "name": "Anna"}
    assert browser.post("/api/invited", {"secret": code}).json()["already"] == {"role": "owner", "name": None}
    listed = browser.get(browser.at("invites")).json()["invites"]
    assert [person["name"] for person in listed[0]["people"]] == ["Anna", "Berta"] and code not in json.dumps(listed)
    # The key of the server comes in the same way, for who serves to others.
    assert stranger.post("/api/invited", {"secret": stranger.app.state.token}).json()["role"] == "owner"
    assert stranger.post("/api/join", {"secret": stranger.app.state.token}).status_code == 200
    assert stranger.get("/api/counts").status_code == 200


def test_whoever_is_shut_out_is_told_why(browser):
    voter, viewer, owner = browser.came_by("voter", "Anna"), browser.came_by("viewer"), browser.came_by("owner", "Olga")
    same = browser.stranger()
    taken = same.post("/api/join", {"secret": voter.code, "name": "anna"})
    assert (taken.status_code, taken.json()["why"]) == (400, "taken") and "ask the owner" in taken.json()["error"]

    def refusal(one, path="/api/studies"):
        answer = one.get(path)
        return answer.status_code, answer.json().get("why")

    assert refusal(voter) == (200, None)
    owner.post(owner.at("invites/revoke"), {"id": voter.invite.id})
    assert refusal(voter) == refusal(voter, voter.at("pair")) == (401, "revoked")
    assert voter.get("/").status_code == 401 and voter.get("/").text.startswith("You are no longer let in")
    late = same.post("/api/invited", {"secret": voter.code})
    assert (late.status_code, late.json()["why"]) == (400, "revoked")
    # An owner may revoke the link that they came by, and is told which it is.
    rows = owner.get(owner.at("invites")).json()["invites"]
    assert [row["id"] for row in rows if row["own"]] == [owner.invite.id]
    people = next(row["people"] for row in rows if row["id"] == viewer.invite.id)
    browser.post(browser.at("invites/remove"), {"id": people[0]["id"]})
    assert owner.post(owner.at("invites/revoke"), {"id": owner.invite.id}).status_code == 200
    assert refusal(viewer) == refusal(owner) == (401, "revoked")
    again = browser.came_by("voter", "Cy")
    browser.post(browser.at("rename"), {"name": "taste of tea"})
    assert again.get("/api/studies").json()["study"]["name"] == "taste of tea"
    browser.post(browser.at("delete"), {"name": "taste of tea"})
    assert refusal(again) == (401, "deleted")
    assert same.post("/api/join", {"secret": again.code, "name": "Di"}).json()["why"] == "deleted"


def test_a_link_revoked_by_another_process_ends_here_within_a_second(browser, monkeypatch):
    voter = browser.came_by("voter", "Anna")
    assert voter.get("/api/studies").status_code == 200
    record = browser.service.session(browser.study).study.stored
    invites.revoke(browser.service.storage, record, voter.invite.id)
    monkeypatch.setattr(access, "FRESH", 0.0)
    assert voter.get("/api/studies").status_code == 401
    for name in (f"{access.COOKIE}{browser.study}", f"{access.COOKIE}x"):
        bad = browser.stranger().get("/api/studies", headers={"cookie": f"{name}=zz; {access.COOKIE}y=1"})
        assert bad.status_code == 401 and bad.json()["error"] in guard.ENDED.values()


def test_who_is_shut_out_hears_no_more(browser, monkeypatch):
    """Wherever the link was revoked; of that study, or of none."""
    monkeypatch.setattr(live_updates, "BEAT", 0.05)
    monkeypatch.setattr(access, "FRESH", 0.0)
    record, voter = browser.service.session(browser.study).study.stored, browser.came_by("voter", "Anna")
    is_still_in, let_in = access.is_still_in, set()

    async def noted(request, study):
        found = await is_still_in(request, study)
        let_in.add(study)
        return found

    monkeypatch.setattr(access, "is_still_in", noted)

    async def heard():
        hearing = [voter.client.get("/api/news", params=of) for of in ({"study": browser.study}, {})]
        streams = [asyncio.create_task(one) for one in hearing]
        while len(let_in) < len(streams):  # both have heard something by then
            await asyncio.sleep(0.01)
        await asyncio.to_thread(invites.revoke, browser.service.storage, record, voter.invite.id)
        return await asyncio.wait_for(asyncio.gather(*streams), 60)

    of_it, of_none = browser.run(heard())
    assert '"answers":0' in of_it.text and of_none.text.startswith(": here") and "data" not in of_none.text
    again = voter.get("/api/news", params={"study": browser.study})
    assert (again.status_code, again.json()["why"]) == (401, "revoked")
