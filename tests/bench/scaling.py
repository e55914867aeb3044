"""`python -m tests.bench.scaling`: what the loops of 50 workers cost PostgreSQL with 10,000 running runs.

Starts a PostgreSQL, fills its tables, and calls the functions of each loop once a round. The server
explains each of their statements (auto_explain): its time, the 8 kB pages that it touches, and the bytes
that it adds to the write-ahead log. Then it counts the updates of some turns that are HOT, which is to
say that they rewrite no entry of an index.
"""

import argparse
import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import orjson

from tests.bench.database import prepare_database

SESSIONS_EACH = 20  # of a workspace
MESSAGES_EACH = 2  # of a run
WEBS, CLIENTS = 4, 1_000
_PLAN = re.compile(r"duration: ([\d.]+) ms\s+plan:\s*(\{.*)", re.DOTALL)
_EXPLAIN = {
    "log_min_duration": "0",
    "log_analyze": "on",
    "log_buffers": "on",
    "log_wal": "on",
    "log_timing": "off",
    "log_format": "json",
    "log_level": "notice",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scaling", description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--runs", type=int, default=10_000, help="that are running")
    parser.add_argument("--finished", type=int, default=100_000, help="runs that have finished")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plans", action="store_true", help="print the plan of each statement")
    options = parser.parse_args()
    with ExitStack() as stack:
        prepare_database(stack, "postgresql", name="scaling")
        Bench(options).measure()


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._plans: list[tuple[float, dict[str, Any]]] = []

    def measure(self) -> None:
        self._fill()
        self._show_sizes()
        self._listen()
        print("\n| statement | a second | statements | ms | pages | WAL bytes | rows |")
        print("|---|---|---|---|---|---|---|")
        self._measure_loops()
        self._measure_leases()
        self._count_hot_updates()

    # -- the rows

    def _fill(self) -> None:
        from agents.models import RunKind
        from agents.runs.accept import Prompt, accept_prompt
        from tests.integration.runs.ground import claim, open_ground, write
        from workspaces.models import NEVER_EXPIRES, ClientClaim

        began = time.monotonic()
        ground = open_ground("/project")
        write(
            lambda tx: accept_prompt(
                tx, ground.workspace_id, Prompt(ground.session_id, "go"), kind=RunKind.PROMPT
            )
        )
        claim("worker-0")
        write(
            lambda tx: accept_prompt(
                tx, ground.workspace_id, Prompt(ground.session_id, "next"), kind=RunKind.PROMPT
            )
        )
        runs, finished, hosts = self._options.runs, self._options.finished, self._options.hosts
        copies = runs // SESSIONS_EACH
        execute(
            "UPDATE workspaces_workspace SET is_open = true, last_event = 500 WHERE id = %s",
            ground.workspace_id,
        )
        w = "'w-' || (n %% %s)"
        self._copy("workspaces_workspace", copies, f"'id', {w}, 'path', '/p/' || n", copies)
        self._copy(
            "workspaces_session",
            runs,
            f"'id', 's-' || n, 'workspace_id', {w}, 'is_busy', true,"
            " 'updated_at', 1700000000000 + n",
            copies,
        )
        author = "'author', jsonb_build_object('kind', 'person', 'name', 'p', 'user_id', n %% 200)"
        self._copy(
            "agents_run",
            runs,
            f"'id', 1000 + n, 'workspace_id', {w}, 'session_id', 's-' || n,"
            f" 'accept_number', 1000, 'state', 'running', 'fence', 1, 'run_id', 'r-' || n, {author},"
            f" 'worker', 'worker-' || (n %% {hosts}), 'lease_expires_at', {NEVER_EXPIRES},"
            " 'started_at', 1700000000000",
            copies,
        )
        self._copy(
            "agents_run",
            finished,
            f"'id', 100000 + n, 'workspace_id', 'w-' || ((n %% {runs} + 1)"
            f" %% %s), 'session_id', 's-' || (n %% {runs} + 1), 'accept_number', n / {runs} + 1,"
            f" 'state', 'finished', 'outcome', 'completed', 'run_id', 'f-' || n, {author},"
            f" 'worker', 'worker-' || (n %% {hosts}), 'lease_expires_at', 0, 'fence', 1,"
            " 'end_noticed_at', 1, 'is_from_person', true, 'finished_at', 1700000000000",
            copies,
        )
        execute(
            "INSERT INTO workspaces_message (id, workspace_id, session_id, position, stream_number,"
            " role, parts, model, provider, is_finished, is_summary, run_key, created_at, updated_at)"
            " SELECT 'm-' || r.id || '-' || k, r.workspace_id, r.session_id, r.accept_number * 10 + k,"
            " r.id * 4 + k, CASE k WHEN 0 THEN 'user' ELSE 'assistant' END,"
            """ '[{"type":"text","data":{"text":"' || repeat('word ', 100) || '"}}]',"""
            " 'm', 'p', r.state = 'finished' OR k = 0, false, r.id, 1, 1"
            f" FROM agents_run r, generate_series(0, {MESSAGES_EACH - 1}) k WHERE r.id > 1000"
        )
        execute(
            "INSERT INTO workspaces_event (workspace_id, number, kind, session_id, payload, created_at)"
            " SELECT id, k, 'run.started', 's', repeat('x', 400), 1 FROM workspaces_workspace,"
            " generate_series(1, 500) k WHERE id LIKE 'w-%%'"
        )
        self._copy("workspaces_registeredprocess", hosts + WEBS - 1, "'id', 'worker-' || n")
        claimed = ClientClaim.objects.get()
        ClientClaim.objects.filter(pk=claimed.pk).update(is_streaming=True, holder="web-9")
        self._copy(
            "workspaces_clientclaim",
            CLIENTS,
            f"'id', 1000 + n, 'workspace_id', {w},"
            f" 'client_id', 'c-' || n, 'holder', 'web-' || (n %% {WEBS})",
            copies,
        )
        execute("DELETE FROM agents_run WHERE state = 'accepted'")
        execute("VACUUM ANALYZE")
        print(f"the tables are filled in {time.monotonic() - began:.0f} s")

    def _copy(self, table: str, count: int, changes: str, *params: object) -> None:
        """Copies the oldest row of a table, with other values in some columns."""
        used = changes.count("%s")
        execute(
            f"INSERT INTO {table} SELECT c.* FROM (SELECT * FROM {table} LIMIT 1) t,"
            f" generate_series(1, {count}) n, jsonb_populate_record(NULL::{table},"
            f" to_jsonb(t) || jsonb_build_object({changes})) c",
            *list(params) * used,
        )

    def _show_sizes(self) -> None:
        print("\n| table | rows | MB | MB of indexes |\n|---|---|---|---|")
        for name, rows, size, indexes in fetch(
            "SELECT relname, n_live_tup, pg_table_size(relid), pg_indexes_size(relid)"
            " FROM pg_stat_user_tables ORDER BY pg_total_relation_size(relid) DESC LIMIT 8"
        ):
            print(f"| {name} | {rows:,} | {size / 1e6:.1f} | {indexes / 1e6:.1f} |")

    # -- the loops

    def _listen(self) -> None:
        from django.db import connection

        execute("LOAD 'auto_explain'")
        for name, value in _EXPLAIN.items():
            execute(f"SET auto_explain.{name} = {value}")
        connection.connection.add_notice_handler(self._note)

    def _note(self, diagnostic: Any) -> None:
        found = _PLAN.search(diagnostic.message_primary or "")
        if found:
            self._plans.append((float(found[1]), orjson.loads(found[2])))

    def _measure_loops(self) -> None:
        from agents.runs.answer import has_expired_grants, overdue_workspaces
        from agents.runs.history.rewind import _left_ones
        from agents.runs.history.rollback import _unfinished
        from agents.runs.queries import held_runs, lost_runs, released_processes
        from agents.runs.teardown import sweep_lapsed
        from agents.runs.transitions import claim_runs
        from notifications.notifier import _has_unnoticed
        from workspaces.actions.claims import renew_claims
        from workspaces.actions.processes import renew_registration
        from workspaces.delivery.event_log import read_head, read_open_messages
        from workspaces.log.timestamps import now_ms
        from workspaces.queries.processes import late_processes

        hosts, now = self._options.hosts, now_ms()
        execute("UPDATE workspaces_registeredprocess SET expires_at = %s", now + 3_600_000)
        execute("UPDATE workspaces_clientclaim SET expires_at = %s", now + 3_600_000)
        every = hosts + WEBS
        some = [(f"w-{n % 500}", (1000 + n) * 4 + 1) for n in range(1, 201)]
        self._line(
            "registration",
            every,
            in_job(
                lambda tx: renew_registration(
                    tx, "worker-0", lease_ms=15_000, runs=200, is_draining=False
                )
            ),
        )
        self._line(
            "claims, none waits",
            hosts,
            in_job(lambda tx: claim_runs(tx, worker="worker-0", limit=50)),
        )
        self._line("held runs", hosts, lambda: held_runs("worker-1"))
        self._line("late processes", hosts, lambda: late_processes(now, apart_from="worker-0"))
        self._line("lost runs", hosts, lambda: lost_runs(now))
        self._line("released processes", hosts, released_processes)
        self._line("rollbacks", hosts, _unfinished)
        self._line("rewinds", hosts, lambda: _left_ones(now))
        self._line("overdue requests", hosts, lambda: overdue_workspaces(now))
        self._line("expired grants", hosts, lambda: has_expired_grants(now))
        self._line("notices", hosts, _has_unnoticed)
        renewal = in_job(lambda tx: renew_claims(tx, holder="web-1"))
        self._line("claims of 250 clients, 9 of 10 times", WEBS, renewal)
        self._line("claims of 250 clients, then", WEBS, renewal, prepare=_age_claims)
        self._line("sweep of claims", WEBS, in_job(sweep_lapsed))
        self._line("head of a log", 500, lambda: read_head("w-7"))
        self._line("200 open messages", 2 * WEBS, lambda: read_open_messages(some))

    def _measure_leases(self) -> None:
        """What each worker did each second before processes were registered."""
        now = 1_800_000_000_000
        execute(
            "CREATE INDEX lease_before ON agents_run (lease_expires_at) WHERE state = 'running'"
        )
        self._line(
            "before: leases of 200 runs",
            self._options.hosts,
            lambda: execute(
                "UPDATE agents_run SET lease_expires_at = %s WHERE worker = %s AND state = 'running'",
                now,
                "worker-2",
            ),
        )
        execute("DROP INDEX lease_before")

    def _line(
        self,
        name: str,
        times: int,
        work: Callable[[], object],
        *,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        for _ in range(5):  # plans and pages are known then, and updated tables have free space
            prepare()
            work()
        figures: list[tuple[int, float, int, int, int]] = []
        for _ in range(self._options.rounds):
            prepare()
            self._plans.clear()
            work()
            figures.append(
                (
                    len(self._plans),
                    sum(duration for duration, _ in self._plans),
                    sum(_pages(plan["Plan"]) for _, plan in self._plans),
                    sum(plan["Plan"].get("WAL Bytes", 0) for _, plan in self._plans),
                    sum(plan["Plan"].get("Actual Rows", 0) for _, plan in self._plans),
                )
            )
        count, ms, pages, wal, rows = (
            statistics.median(values) for values in zip(*figures, strict=True)
        )
        print(f"| {name} | {times} | {count:g} | {ms:.2f} | {pages:,.0f} | {wal:,.0f} | {rows:g} |")
        if self._options.plans:
            for _, plan in self._plans:
                print(f"    {plan['Query Text'][:150]}")
                for line in _outline(plan["Plan"]):
                    print(f"      {line}")

    # -- HOT updates

    def _count_hot_updates(self) -> None:
        from agents.runs.reply import Checkpoint, save_checkpoints
        from agents.runs.steps import ReplyStart, ReplyWrite
        from tests.integration.runs.ground import (
            end,
            open_ground,
            register_worker,
            result,
            say,
            step,
            write,
        )
        from workspaces.log.parts import FinishReason, Text
        from workspaces.models import Message

        execute("SET auto_explain.log_min_duration = -1")
        execute("VACUUM ANALYZE")
        grounds = [open_ground(f"/hot/{n}") for n in range(5)]
        register_worker("worker")
        before = self._updates()
        for turn in range(20):
            execute("UPDATE workspaces_registeredprocess SET expires_at = 9999999999999")
            for ground in grounds:
                held = ground.start("go on")
                for number in range(4):
                    call = f"c-{turn}-{number}"
                    say(held, "I look at the file.", [call])
                    step(held, begins=[call])
                    step(held, results=[result(call)])
                written = step(held, start=ReplyStart("model", "provider"))
                message = Message.objects.filter(run_key=held.key, role="assistant").latest(
                    "position"
                )
                for words in range(10):
                    text = (Text("some words " * words),)
                    point = Checkpoint(held, message.pk, written.stream_number, text)
                    write(lambda tx, point=point: save_checkpoints(tx, [point]))
                reply = ReplyWrite(message.pk, (Text("done"),), FinishReason.END_TURN)
                step(held, reply=reply)
                end(held)
        time.sleep(1.5)  # PostgreSQL's counters are late
        print("\n| table | updates | HOT |\n|---|---|---|")
        for name, (updates, hot) in self._updates().items():
            updates, hot = updates - before[name][0], hot - before[name][1]
            if updates:
                print(f"| {name} | {updates} | {hot / updates:.0%} |")

    def _updates(self) -> dict[str, tuple[int, int]]:
        fetch("SELECT pg_stat_force_next_flush()")
        fetch("SELECT pg_stat_clear_snapshot()")
        rows = fetch("SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables ORDER BY 1")
        return {name: (updates, hot) for name, updates, hot in rows}


def _age_claims() -> None:
    soon = time.time_ns() // 10**6 + 15_000
    execute("UPDATE workspaces_clientclaim SET expires_at = %s WHERE holder = 'web-1'", soon)
    execute("VACUUM workspaces_clientclaim")


def in_job(job: Callable[[Any], object]) -> Callable[[], object]:
    from tests.integration.runs.ground import write

    return lambda: write(job)


def execute(sql: str, *params: object) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def fetch(sql: str, *params: object) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def _pages(plan: dict[str, Any]) -> int:
    return int(plan.get("Shared Hit Blocks", 0)) + int(plan.get("Shared Read Blocks", 0))


def _outline(plan: dict[str, Any], depth: int = 0) -> Iterator[str]:
    where = plan.get("Index Name") or plan.get("Relation Name") or ""
    yield f"{'  ' * depth}{plan['Node Type']} {where} rows {plan.get('Actual Rows')}"
    for inner in plan.get("Plans", ()):
        yield from _outline(inner, depth + 1)


if __name__ == "__main__":
    main()
