"""A mailbox on disk: at least once, whoever dies."""

import os
import threading

import pytest

from agents.fleet import mail as mails
from agents.fleet.documents import BadDocument
from agents.fleet.mail import AskMode, Mail, MailKind, Sender
from agents.fleet.mailbox import Mailbox

PARENT = Sender("p1", "orchestrator")
CAPTURED = b"""{
  "id": "7a0c0f2e-0000-4000-8000-000000000001",
  "from": {
    "session_id": "p1",
    "role": "orchestrator"
  },
  "kind": "ask",
  "body": {
    "mode": "steer",
    "question": "q"
  },
  "created_at": "2026-11-18T09:14:41.691893426Z"
}"""


@pytest.fixture
def box(tmp_path):
    return Mailbox(tmp_path / "mailbox")


def files(box):
    folders = ("new", "cur", "corrupt")
    return {name: sorted(p.name for p in (box.folder / name).iterdir()) for name in folders}


def test_a_message_is_written_as_the_other_side_writes_it():
    mail = mails.decode(CAPTURED)
    assert mails.encode(mail) == CAPTURED
    # 20 digits; the example in the facts has this moment.
    assert mail.file_name == f"{mail.created_at:020d}-7a0c0f2e-0000-4000-8000-000000000001.json"
    assert len(mail.file_name.partition("-")[0]) == 20


def test_an_answer_names_its_question():
    question = mails.ask(PARENT, "q", mode=AskMode.STEER)
    answer = mails.reply(Sender("c1"), question, "a")
    again = mails.decode(mails.encode(answer))
    assert again.correlation_id == question.id
    assert (again.kind, again.body) == (MailKind.REPLY, {"answer": "a"})
    assert b'"role"' not in mails.encode(answer)


def test_a_newer_programs_kind_is_no_corruption():
    assert mails.decode(CAPTURED.replace(b'"ask"', b'"leased_run"')).kind == "leased_run"


def test_it_goes_from_new_to_cur_and_away(box):
    first = Mail(PARENT, "task", {"n": 1}, created_at=5)
    second = Mail(PARENT, "task", {"n": 2}, created_at=4)
    box.deliver(first)
    box.deliver(second)
    assert box.waiting() == 2
    drained = box.drain()
    assert [each.mail for each in drained] == [second, first]
    assert files(box) == {
        "new": [],
        "cur": [second.file_name, first.file_name],
        "corrupt": [],
    }
    for each in drained:
        box.ack(each)
        box.ack(each)
    assert files(box)["cur"] == []


def test_what_was_not_acknowledged_comes_again_after_a_crash(box):
    box.deliver(Mail(PARENT, "task", 1))
    drained = box.drain()
    assert box.drain() == []
    assert Mailbox(box.folder).recover() == drained


def test_what_cannot_be_read_is_moved_aside_and_nothing_else_is_lost(box, tmp_path):
    good = Mail(PARENT, "task", 1)
    box.deliver(good)
    victim = tmp_path / "victim.json"
    victim.write_bytes(CAPTURED)
    new = box.folder / "new"
    (new / "00000000000000000001-bad.json").write_bytes(b"{")
    (new / "00000000000000000002-link.json").symlink_to(victim)
    os.mkfifo(new / "00000000000000000003-pipe.json")
    (new / ".00000000000000000004-half.json.tmp.x").write_bytes(b"{")
    assert [each.mail for each in box.drain()] == [good]
    assert len(files(box)["corrupt"]) == 3
    assert victim.exists()


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".x"])
def test_an_id_cannot_leave_the_mailbox(box, name):
    with pytest.raises(BadDocument):
        box.deliver(Mail(PARENT, "task", 1, id=name))
    assert not box.folder.exists()


def test_a_body_json_cannot_hold_is_refused(box):
    with pytest.raises(BadDocument):
        box.deliver(Mail(PARENT, "task", object()))
    with pytest.raises(BadDocument):
        box.deliver(Mail(PARENT, "task", "\ud800"))


def test_an_empty_or_missing_mailbox_has_nothing(box):
    assert box.drain() == []
    assert box.recover() == []
    assert box.waiting() == 0


def test_readers_at_once_share_the_messages(box):
    sent = [Mail(PARENT, "task", number) for number in range(60)]
    for mail in sent:
        box.deliver(mail)
    taken = []
    barrier = threading.Barrier(4)

    def read():
        barrier.wait()
        taken.extend(each.mail.id for each in Mailbox(box.folder).drain())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(mail.id for mail in sent)


def test_only_an_expired_claim_is_taken_over_and_by_one_alone(box):
    box.deliver(Mail(PARENT, "task", 1))
    (mine,) = box.drain()
    assert box.recover(lease_seconds=30) == []
    expire(box, mine)
    assert box.recover(lease_seconds=30) == [mine]
    assert box.recover(lease_seconds=30) == []  # the taker's lease runs now


def test_a_renewed_claim_is_kept(box):
    box.deliver(Mail(PARENT, "task", 1))
    (mine,) = box.drain()
    expire(box, mine)
    assert box.renew(mine)
    assert box.recover(lease_seconds=30) == []
    box.ack(mine)
    assert not box.renew(mine)


def test_an_old_message_is_not_taken_for_an_expired_claim(box):
    box.deliver(Mail(PARENT, "task", 1))
    for path in (box.folder / "new").iterdir():
        os.utime(path, (1, 1))
    assert len(box.drain()) == 1
    assert box.recover(lease_seconds=30) == []


def test_a_drain_may_be_bounded(box):
    for number in range(3):
        box.deliver(Mail(PARENT, "task", number))
    assert len(box.drain(most=2)) == 2
    assert box.waiting() == 1


def expire(box, delivered):
    os.utime(box.folder / "cur" / delivered.name, (1, 1))
