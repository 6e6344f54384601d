"""The one translator from errors to statuses."""

from __future__ import annotations

import logging
from urllib.parse import quote

import grpc
import psycopg
import pytest
from google.rpc import error_details_pb2
from psycopg import errors as sql_errors
from psycopg_pool import PoolTimeout

from hitherto_shared import errors
from hitherto_shared.errors import FieldViolation, HithertoError, InvalidRequest
from hitherto_shared.rpc.status import as_hitherto_error, to_status

SECRET = "canary-of-a-user"


def test_what_goes_wrong_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    cases: list[tuple[Exception, str, bool]] = [
        (PoolTimeout(SECRET), "RESOURCE_EXHAUSTED", True),
        (sql_errors.DiskFull(SECRET), "RESOURCE_EXHAUSTED", True),
        (sql_errors.TooManyConnections(SECRET), "RESOURCE_EXHAUSTED", True),
        (sql_errors.SerializationFailure(SECRET), "ABORTED", True),
        (sql_errors.LockNotAvailable(SECRET), "ABORTED", True),
        (sql_errors.UniqueViolation(SECRET), "ABORTED", True),
        (sql_errors.ReadOnlySqlTransaction(SECRET), "UNAVAILABLE", True),
        (psycopg.OperationalError(SECRET), "UNAVAILABLE", True),
        (sql_errors.QueryCanceled(SECRET), "DEADLINE_EXCEEDED", False),
        (TimeoutError(SECRET), "DEADLINE_EXCEEDED", False),
        (sql_errors.CheckViolation(SECRET), "INTERNAL", False),
        (ValueError(SECRET), "INTERNAL", False),
    ]
    for fault, code, retryable in cases:
        caplog.set_level(logging.DEBUG)
        told = as_hitherto_error(fault, "request-1")
        status = to_status(told)
        assert told.code.name == code, fault
        assert status.code == told.code.value[0], fault
        assert SECRET not in str(status), fault
        assert SECRET not in caplog.text, fault
        retry = error_details_pb2.RetryInfo()
        assert any(detail.Unpack(retry) for detail in status.details) is retryable, fault
        assert (retry.retry_delay.ToMilliseconds() > 0) is retryable, fault
        info = error_details_pb2.ErrorInfo()
        assert status.details[0].Unpack(info), fault
        assert info.domain == "hitherto", fault


def test_a_database_that_only_refuses_writes_is_not_called_unreachable() -> None:
    told = as_hitherto_error(sql_errors.ReadOnlySqlTransaction(SECRET), "request-1")
    assert told.reason == "DATABASE_UNAVAILABLE"
    assert "accepts no writes" in told.message


def test_the_cause_of_a_fault_is_not_told_either(caplog: pytest.LogCaptureFixture) -> None:
    try:
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            raise RuntimeError(SECRET) from error
    except RuntimeError as error:
        as_hitherto_error(error, "request-1")
    assert "unexpected RuntimeError" in caplog.text
    assert SECRET not in caplog.text


def _trailer(error: HithertoError) -> int:
    """Bytes of trailing metadata: the message escaped, and the status in base64."""
    status = to_status(error)
    return len(quote(status.message)) + len(status.SerializeToString()) * 4 // 3


def test_a_status_fits_into_a_trailer() -> None:
    others: list[tuple[int, int]] = [(1, 5_000), (2, 200), (50, 200), (5_000, 5)]
    for letter in ["x", "é", "👩"]:
        for count, length in others:
            error = InvalidRequest(
                [FieldViolation(f"f[{i}].{letter * length}", letter * length) for i in range(count)]
            )
            # Clients take 8 KiB, and gRPC adds some of its own.
            assert _trailer(error) < 7_800, (letter, count)
            status = to_status(error)
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            assert status.details[0].Unpack(info), (letter, count)
            assert status.details[1].Unpack(bad), (letter, count)
            listed = len(bad.field_violations)
            assert listed >= 1, (letter, count)
            assert listed + int(info.metadata.get("omitted", "0")) == count, (letter, count)


def test_a_long_path_keeps_both_of_its_ends() -> None:
    bad = error_details_pb2.BadRequest()
    status = to_status(InvalidRequest([FieldViolation("first." + "a." * 200 + "last", "is long")]))
    assert status.details[1].Unpack(bad)
    (violation,) = bad.field_violations
    assert violation.field.startswith("first.")
    assert violation.field.endswith(".last")
    assert len(violation.field.encode()) <= 200


def test_every_error_of_the_tree_has_a_status_of_its_own() -> None:
    tree = HithertoError.__subclasses__()
    assert len({error.code for error in tree}) == len(tree)
    for error in tree:
        assert (error.__doc__ or "").strip()
        assert error.__name__ in (errors.__doc__ or "")
        assert f"{error.code.name}" in (errors.__doc__ or "")
        assert error.code is not grpc.StatusCode.UNKNOWN
