"""A run's columns are listed once: what is inserted fits the table, and rows decode by name."""

from __future__ import annotations

from dataclasses import fields

from django.db.models import NOT_PROVIDED

from agents.models import Run
from agents.runs.rows import NewRun


def test_a_new_run_gives_every_column_that_the_database_does_not_fill() -> None:
    needed = {
        column.attname
        for column in Run._meta.concrete_fields
        if not (column.null or column.primary_key or column.db_default is not NOT_PROVIDED)
    }
    assert needed - {field.name for field in fields(NewRun)} == set()


def test_a_new_run_has_only_columns_of_the_table() -> None:
    columns = {column.attname for column in Run._meta.concrete_fields}
    assert {field.name for field in fields(NewRun)} <= columns
