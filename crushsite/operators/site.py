"""The admin's site: its name, its sign-in, and the dashboard as its first page.

Each panel of the dashboard needs Django's permission to view what it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.admin.forms import AdminAuthenticationForm
from django.db.models import Model
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from agents import figures
from agents.models import Run, SubAgent, UsageEntry
from agents.runs.claims.claim_order import runs_at_limits
from agents.states import RunState
from agents.stuck_runs import StuckRun, stuck_runs
from people.models import AuditEntry
from people.pages.form import ThrottledForm
from permissions.models import BatchState, PermissionRequest, QuestionBatch
from workspaces.admin_pages.charts import Bar, bar_chart, share_bar
from workspaces.admin_pages.texts import NOTHING, duration, to_the_second
from workspaces.log.timestamps import now_ms

MayView = Callable[[str], bool]
AUDIT_SHOWN = 8
STUCK_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure, which leads to the list behind it."""

    name: str
    value: str
    note: str = ""
    url: str = ""
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    summary: str
    drawing: SafeString
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class WorkerLine:
    name: str
    runs: int
    state: str
    share: SafeString
    url: str


@dataclass(frozen=True, slots=True)
class StuckLine:
    run: StuckRun
    waited: str
    url: str


@dataclass(slots=True)
class Dashboard:
    at: str
    tiles: list[Tile] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    workers: list[WorkerLine] | None = None
    stuck: list[StuckLine] | None = None
    audit: list[tuple[AuditEntry, str]] | None = None


def dashboard(may_view: MayView) -> Dashboard:
    now = now_ms()
    shown = Dashboard(to_the_second(now))
    after = figures.last_before(now)
    if may_view("agents.view_run"):
        _add_runs(shown, now, after)
    if may_view("permissions.view_permissionrequest"):
        shown.tiles.append(_open_tile("Permission requests", PermissionRequest, now))
    if may_view("permissions.view_questionbatch"):
        shown.tiles.append(_open_tile("Questions", QuestionBatch, now))
    if may_view("agents.view_subagent"):
        _add_sub_agents(shown, now, after)
    if may_view("agents.view_usageentry"):
        _add_spend(shown, now)
    if may_view("people.view_auditentry"):
        newest = AuditEntry.objects.order_by("-pk")[:AUDIT_SHOWN]
        shown.audit = [(entry, to_the_second(entry.at)) for entry in newest]
    return shown


def _add_runs(shown: Dashboard, now: int, after: int) -> None:
    states = figures.runs_by_state()
    oldest = figures.oldest_waiting()
    wait = f"the first since {duration(now - oldest)}" if oldest else ""
    if at_limits := len(runs_at_limits()):
        wait += f", {at_limits:,} because of a limit"
    waiting = states.get(RunState.ACCEPTED, 0) + states.get(RunState.READY, 0)
    shown.tiles += [
        Tile("Running", f"{states.get(RunState.RUNNING, 0):,}", "runs", _runs(RunState.RUNNING)),
        Tile("Waiting for a worker", f"{waiting:,}", wait, _runs(RunState.ACCEPTED)),
        Tile(
            "Waiting for people",
            f"{states.get(RunState.PARKED, 0):,}",
            "runs",
            _runs(RunState.PARKED),
        ),
    ]
    hours = figures.hours(now, after)
    errors, ended = sum(h.errors for h in hours), sum(h.errors + h.succeeded for h in hours)
    where = _list(Run, outcome=figures.ERRORS[0], accepted_at_within="day")
    shown.tiles.append(
        Tile("Errors", f"{errors:,}", f"of {ended:,} runs in 24 hours", where, bool(errors))
    )
    shown.charts += [_accepted_chart(hours), _wait_chart(hours), _errors_chart(hours)]
    shown.stuck = _stuck(now)
    found = figures.workers()
    most = max((worker.runs for worker in found), default=0)
    shown.workers = [
        WorkerLine(
            str(worker.process or worker.name or NOTHING),
            worker.runs,
            _state(worker, now),
            share_bar(worker.runs, most),
            _list(Run, state=RunState.RUNNING, worker=worker.name),
        )
        for worker in found
    ]


def _stuck(now: int) -> list[StuckLine]:
    return [
        StuckLine(
            run, duration(now - run.since), reverse("admin:agents_run_change", args=[run.key])
        )
        for run in stuck_runs(now)[:STUCK_SHOWN]
    ]


def _state(worker: figures.Worker, now: int) -> str:
    if worker.lease_expires_at == 0:
        return "lost"
    if worker.lease_expires_at < now:
        return f"silent for {duration(now - worker.lease_expires_at)}"
    return "draining" if worker.process is not None and worker.process.is_draining else "live"


def _accepted_chart(hours: Sequence[figures.Hour]) -> Chart:
    bars = [Bar(_hour(h.start), h.accepted, f"{h.accepted:,} runs") for h in hours]
    return _chart("Accepted runs by hour", bars, f"{max(h.accepted for h in hours):,}", "Runs")


def _wait_chart(hours: Sequence[figures.Hour]) -> Chart:
    bars = [
        Bar(
            _hour(h.start),
            h.wait_average or 0,
            f"{duration(h.wait_average)} on average, {duration(h.wait_longest)} at most",
        )
        for h in hours
    ]
    top = duration(max(bar.value for bar in bars))
    return _chart("Queue wait by hour", bars, top, "Wait")


def _errors_chart(hours: Sequence[figures.Hour]) -> Chart:
    bars = [
        Bar(_hour(h.start), h.succeeded, f"{h.errors:,} errors, {h.succeeded:,} others", h.errors)
        for h in hours
    ]
    top = f"{max(h.succeeded + h.errors for h in hours):,}"
    return _chart("Ended runs and errors by hour", bars, top, "Ended")


def _add_sub_agents(shown: Dashboard, now: int, after: int) -> None:
    states = figures.sub_agents_by_state()
    note = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    live = sum(states.values())
    address = _list(SubAgent, started_at_within="day")
    shown.tiles.append(Tile("Sub-agents", f"{live:,}", note or "at work", address))
    bars = [
        Bar(_hour(start), count, f"{count:,} started")
        for start, count in figures.sub_agents_by_hour(now, after)
    ]
    top = f"{max(bar.value for bar in bars):,.0f}"
    shown.charts.append(_chart("Started sub-agents by hour", bars, top, "Sub-agents"))


def _add_spend(shown: Dashboard, now: int) -> None:
    days = figures.spend_by_day(now)
    _, today, requests = days[-1]
    total = sum(cost for _, cost, _ in days)
    address = _list(UsageEntry, created_at_within="day")
    note = f"{requests:,} requests today"
    shown.tiles.append(Tile("Spend today", f"${today:,.2f}", note, address))
    bars = [
        Bar(_day(start), cost, f"${cost:,.2f}, {count:,} requests") for start, cost, count in days
    ]
    top = f"${max(cost for _, cost, _ in days):,.2f}"
    title = f"Spend by day, ${total:,.2f} in {figures.DAYS} days"
    shown.charts.append(_chart(title, bars, top, "Spend"))


def _open_tile(name: str, model: type[PermissionRequest] | type[QuestionBatch], now: int) -> Tile:
    found = figures.open_ones(model)
    note = f"the first since {duration(now - found.oldest)}" if found.oldest else "open"
    address = _list(model, state=BatchState.PENDING)
    return Tile(name, f"{found.count:,}", note, address, bool(found.count))


def _chart(title: str, bars: Sequence[Bar], top: str, head: str) -> Chart:
    busiest = max(bars, key=lambda bar: bar.value + bar.second)
    is_empty = busiest.value + busiest.second <= 0
    summary = "Nothing yet." if is_empty else f"Most at {busiest.label}: {busiest.shown}."
    return Chart(
        title,
        summary,
        bar_chart(f"{title}. {summary}", bars, top_label="" if is_empty else top),
        ("Time (UTC)", head),
        [(bar.label, bar.shown) for bar in bars],
    )


def _hour(start: int) -> str:
    return f"{datetime.fromtimestamp(start / 1000, UTC):%H:00}"


def _day(start: int) -> str:
    return f"{datetime.fromtimestamp(start / 1000, UTC):%b %d}"


def _runs(state: RunState) -> str:
    return _list(Run, state=state)


def _list(model: type[Model], **lookup: object) -> str:
    meta = model._meta
    chosen = {name: str(value) for name, value in lookup.items()}
    address = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
    return f"{address}?{urlencode(chosen)}"


class ThrottledSignIn(ThrottledForm, AdminAuthenticationForm):
    pass


class OperatorSite(AdminSite):
    site_header = site_title = "Crush server"
    index_title = "Dashboard"
    index_template = "operators/index.html"
    login_form = ThrottledSignIn

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        if settings.CRUSH_SSO:
            from allauth.account.decorators import secure_admin_login  # noqa: PLC0415  an extra

            # Its own page would let people in without their second factor.
            self.login = secure_admin_login(self.login)  # type: ignore[method-assign]  # as the library documents

    @override
    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        shown = dashboard(request.user.has_perm)
        return super().index(request, {**(extra_context or {}), "dashboard": shown})
