"""Links to a study and those who come by them: on both databases, by digests alone, one name for one person."""

import pytest
from sqlalchemy import text

from kappasharp.errors import InviteError, UnknownNameError
from kappasharp.store import invites
from kappasharp.store.storage import Storage
from kappasharp.study.collection import create_study, delete_study, rename_study


@pytest.fixture
def study(storage):
    return create_study({"x": (0.0, 1.0)}, storage=storage, study_name="chair")


def why(storage, code, name="Bea", holds=None):
    with pytest.raises(InviteError) as refused:
        invites.join(storage, code, name, holds)
    return refused.value.why


def test_a_link_lets_in_and_survives_a_restart_and_another_name_of_the_study(study, url):
    made, code = invites.make(study.storage, study.stored, "voter")
    rename_study("chair", "stool", storage=study.storage)
    again = Storage(url)
    opened = invites.opened(again, code)
    assert (opened.record.name, opened.role, opened.already) == ("stool", "voter", None)
    seat, secret = invites.join(again, code, " Bea ")
    assert (seat.role, seat.name, seat.study) == ("voter", "Bea", study.stored.uid)
    assert invites.seats(study.storage, [secret, "0" * 32, "ü", ""]) == {secret: seat}
    assert invites.opened(again, code, secret).already == seat
    assert [(one.id, [p.name for p in one.people]) for one in invites.listed(again, study.stored)] == [
        (made.id, ["Bea"])
    ]
    # Who comes again is who they were, whatever name they give; a better link gives them more.
    assert invites.join(again, code, "Cy", secret) == (seat, secret)
    _, better = invites.make(again, study.stored, "owner")
    assert invites.join(again, better, None, secret)[0][3:] == ("owner", "Bea")
    again.close()


def test_the_database_holds_no_secret(study):
    _, code = invites.make(study.storage, study.stored, "voter")
    _, secret = invites.join(study.storage, code, "Bea")
    with study.storage._engine.begin() as connection:
        tables = ("kappasharp_invites", "kappasharp_seats")
        stored = str([connection.execute(text(f"SELECT * FROM {name}")).all() for name in tables])
    assert code not in stored and secret not in stored and "Bea" in stored


def test_a_name_is_one_persons(study):
    """By whichever link, however it is written; and not that of somebody who answered without a link."""
    storage = study.storage
    (first, one), (_, other) = (invites.make(storage, study.stored, "voter") for _ in range(2))
    study.tell(study.ask("Old"), "a")
    bea, secret = invites.join(storage, one, "Bea")
    assert [why(storage, other, name) for name in ("Bea", "bea ", "ＢＥＡ", "me", "old")] == ["taken"] * 5
    study.tell(study.ask("Bea"), "b")
    # Of a link that is revoked the names stay; who has the old cookie comes back by a new link.
    invites.revoke(storage, study.stored, first.id)
    assert invites.seats(storage, [secret]) == {} and why(storage, other, "Bea") == "taken"
    assert invites.join(storage, other, "", secret)[0].name == "Bea" and len(invites.seats(storage, [secret])) == 1
    # Who is shut out is gone, and leaves the name to whoever takes it: as it was spelt, for its answers stand under it.
    invites.remove(storage, study.stored, bea.id)
    assert invites.seats(storage, [secret]) == {}
    again, _ = invites.join(storage, other, " ＢEa", secret)
    assert again.id != bea.id and again.name == "Bea" and why(storage, other, "bea") == "taken"
    with pytest.raises(UnknownNameError, match="Nobody"):
        invites.remove(storage, study.stored, bea.id)


def test_links_that_lead_nowhere_say_why(study, monkeypatch):
    storage, record = study.storage, study.stored
    made, code = invites.make(storage, record, "viewer")
    assert invites.join(storage, code, None)[0].name is None
    assert [why(storage, wrong) for wrong in (code[:-4], code[:-4] + "AAAA", "", None, 7, "ü" * 43)] == ["unknown"] * 6
    with pytest.raises(UnknownNameError, match="No role"):
        invites.make(storage, record, "king")
    with pytest.raises(UnknownNameError, match="no link 'x'"):
        invites.revoke(storage, record, "x")
    _, voters = invites.make(storage, record, "voter")
    for wrong in ("", "a\nb", None, "x" * 300):
        with pytest.raises((ValueError, TypeError), match="voter"):
            invites.join(storage, voters, wrong)
    monkeypatch.setattr(invites, "MOST_PEOPLE", 1)
    assert why(storage, voters) == "full"
    invites.revoke(storage, record, made.id)
    assert why(storage, code) == "revoked"
    delete_study("chair", storage=storage)
    assert why(storage, code) == why(storage, voters) == "deleted"
    with storage._engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM kappasharp_seats")).scalar() == 0
