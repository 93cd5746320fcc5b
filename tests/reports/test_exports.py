"""CSV, JSON and the command line: what spreadsheets and scripts get, with the figures of the page."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.core.management import CommandError, call_command

from reports import csv_export, intervals, numbers
from reports.asked import Preset, parse_asked, preset_span
from reports.consumption import ReportRequest, make_report
from reports.json_export import report_json
from reports.parquet_export import is_possible, report_parquet
from reports.periods import Bucket, make_span
from reports.refused import ReportRefused
from scheduler.core.usage import CURRENCY, GPU_HOUR
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.reports.ledgers import Ledger, utc

NOW = utc(2026, 12, 1)
NAMES = [
    '=HYPERLINK("http://x","y")',
    "+1",
    "@sum(1)",
    "-team",
    "\ttab",
    'a, "b"\nc',
    "'quoted",
    "推論服務",
    "𠮷野家",
    "全形\u3000空白",
]


@pytest.fixture
def ledger(db):
    made = Ledger(price="74").department("正式區", quota="1")
    for name in NAMES:
        made.project(name, of="正式區", quota="0.10")
        made.hold(name, "0.25", utc(2026, 11, 2), utc(2026, 11, 2, 2))
    return made


def made(**request):
    span = make_span(from_at=utc(2026, 11, 2), to_at=utc(2026, 11, 3), zone="Asia/Taipei", now=NOW)
    return make_report(visible=WHOLE_CLUSTER, request=ReportRequest(span=span, **request), now=NOW)


def read(document):
    return list(csv.DictReader(io.StringIO(document.decode("utf-8-sig"), newline="")))


def recovered(text):
    return text[1:] if text.startswith("'") else text


def test_b34_no_cell_of_text_is_a_formula_and_every_name_can_be_recovered(ledger):
    rows = read(b"".join(csv_export.report_csv(report=made())))

    assert {recovered(row["name"]) for row in rows} == set(NAMES)
    assert all(None not in row and None not in row.values() for row in rows)
    for row in rows:
        assert not row["name"].startswith(("=", "+", "-", "@", "\t", "\r"))


def test_numbers_are_never_guarded():
    lines = [["-0.25", "0.09"]]

    document = b"".join(csv_export.stream(header=["a", "b"], lines=lines))

    assert read(document) == [{"a": "-0.25", "b": "0.09"}]


def test_the_mark_is_there_once_at_byte_zero_however_many_parts(ledger):
    lines = ([str(number)] for number in range(2 * csv_export.LINES_A_PART))

    parts = list(csv_export.stream(header=["推論"], lines=lines))

    assert len(parts) > 1
    assert b"".join(parts).startswith(b"\xef\xbb\xbf")
    assert b"".join(parts).count(b"\xef\xbb\xbf") == 1


def test_b45_a_report_without_rows_has_its_heading(db):
    Ledger()

    document = b"".join(csv_export.report_csv(report=made()))

    heading = document.decode("utf-8-sig").splitlines()
    assert len(heading) == 1
    assert heading[0].endswith("period_start,period_end,timezone,filters")


def test_times_have_their_offset_and_the_trailing_columns_are_the_same_on_every_row(ledger):
    rows = read(b"".join(csv_export.report_csv(report=made(bucket=Bucket.HOUR))))

    assert rows[0]["bucket_start"] == "2026-11-02T08:00:00+08:00"
    trailing = {tuple(row.values())[-4:] for row in rows}
    assert trailing == {
        ("2026-11-02T08:00:00+08:00", "2026-11-03T08:00:00+08:00", "Asia/Taipei", "")
    }


def test_the_file_is_called_by_segment_and_period_and_offered_in_utf_8():
    name = csv_export.file_name(request=made_request())

    assert name == "tidegate-consumption-project-20261102T0800-20261103T0800.csv"
    offered = csv_export.disposition(name="報告.csv")
    assert offered == ("attachment; filename=\"__.csv\"; filename*=UTF-8''%E5%A0%B1%E5%91%8A.csv")


def made_request():
    span = make_span(from_at=utc(2026, 11, 2), to_at=utc(2026, 11, 3), zone="Asia/Taipei", now=NOW)
    return ReportRequest(span=span)


def test_json_csv_and_command_line_tell_the_same_figures(ledger, tmp_path):
    report = made()
    from_json = json.loads(json.dumps(report_json(report=report)))["rows"]
    from_csv = read(b"".join(csv_export.report_csv(report=report)))
    target = tmp_path / "report.csv"

    call_command(
        "report", "--from=2026-11-02T08:00", "--to=2026-11-03T08:00", "--zone=Asia/Taipei",
        "--format=csv", f"--out={target}",
    )  # fmt: skip

    assert read(target.read_bytes()) == from_csv
    assert [row["gpu_over_quota_hours"] for row in from_json] == ["0.300"] * len(NAMES)
    assert [row["gpu_over_quota_hours"] for row in from_csv] == ["0.300"] * len(NAMES)
    assert {row["cost"] for row in from_csv} == {"37.00"}


def test_the_command_line_prints_a_table_and_json(ledger, capsysbinary):
    words = ["--from=2026-11-02", "--to=2026-11-03", "--by=department", "--zone=UTC"]
    call_command("report", *words)
    table = capsysbinary.readouterr().out.decode()
    call_command("report", *words, "--format=json")
    told = json.loads(capsysbinary.readouterr().out)

    assert table.splitlines()[-1].split()[1:3] == ["5.000", "24.000"]
    assert told["total"]["gpu_allocation_hours"] == "5.000"
    assert told["total"]["exact"]["allocated"] == 5 * GPU_HOUR


def test_the_command_line_refuses_in_words(db):
    with pytest.raises(CommandError, match="There is no time zone Mars/Base"):
        call_command("report", "--zone=Mars/Base")


def test_intervals_add_up_to_the_figure_they_stand_behind(ledger):
    ledger.hold("+1", "0.50", utc(2026, 11, 1), None)

    rows = read(b"".join(intervals.export(visible=WHOLE_CLUSTER, request=made_request(), now=NOW)))

    assert len(rows) == len(NAMES) + 1
    held = sum(round(1000 * float(row["gpu_hours_in_period"])) for row in rows)
    assert held == 1000 * (len(NAMES) * 0.5 + 12)
    assert rows[-1]["held_to"] == ""
    assert recovered(rows[-1]["project"]) == "+1"


@pytest.mark.skipif(is_possible(), reason="pyarrow is installed")
def test_without_its_package_parquet_says_how_to_install_it(ledger):
    with pytest.raises(ReportRefused, match="pip install pyarrow"):
        report_parquet(report=made())


HOURS = [
    (GPU_HOUR // 3, "0.333"),
    (2 * GPU_HOUR // 3, "0.667"),
    (GPU_HOUR // 2000, "0.001"),
    (GPU_HOUR // 2000 - 1, "0.000"),
    (-GPU_HOUR // 4, "-0.250"),
    (-1, "0.000"),
    (0, "0.000"),
]


@pytest.mark.parametrize(("amount", "text"), HOURS)
def test_an_hour_figure_is_rounded_once(amount, text):
    assert numbers.gpu_hours(amount) == text


SHOWN = [
    (41_230 * GPU_HOUR + GPU_HOUR // 2, "41,230.5"),
    (100 * GPU_HOUR, "100.0"),
    (99 * GPU_HOUR, "99.00"),
    (GPU_HOUR * 9 // 100, "0.09"),
]


@pytest.mark.parametrize(("amount", "text"), SHOWN)
def test_pages_print_one_place_from_a_hundred_up(amount, text):
    assert numbers.shown_hours(amount) == text


def test_pages_print_money_whole_from_a_hundred_up():
    assert numbers.shown_money(3_051_057 * CURRENCY + CURRENCY // 4) == "3,051,057"
    assert numbers.shown_money(99 * CURRENCY + CURRENCY // 4) == "99.25"


def test_words_become_a_request_and_the_same_words_again():
    words = {
        "from": ["2026-11-01T10:30"],
        "to": ["2026-11-02"],
        "by": ["department"],
        "step": ["hour"],
        "project": ["3", "1"],
        "kind": ["inference"],
        "compare": ["1"],
    }

    asked = parse_asked(words=words, zone="Asia/Kathmandu", now=NOW)
    again = parse_asked(words=asked.words(), zone="UTC", now=NOW)

    assert again == asked
    assert asked.query(step="") == (
        "period=custom&from=2026-11-01T10%3A30&to=2026-11-02&zone=Asia%2FKathmandu"
        "&by=department&project=1&project=3&kind=inference&compare=1"
    )


def test_words_that_mean_nothing_are_refused():
    for words in ({"by": ["galaxy"]}, {"project": ["x"]}, {"kind": ["game"]}, {"from": ["now"]}):
        with pytest.raises(ReportRefused):
            parse_asked(words=words, zone="UTC", now=NOW)


PRESETS = [
    (Preset.TODAY, "2026-12-15", "2026-12-15T10:00"),
    (Preset.YESTERDAY, "2026-12-14", "2026-12-15T00:00"),
    (Preset.DAYS_7, "2026-12-09", "2026-12-15T10:00"),
    (Preset.DAYS_30, "2026-11-16", "2026-12-15T10:00"),
    (Preset.THIS_MONTH, "2026-12-01", "2026-12-15T10:00"),
    (Preset.LAST_MONTH, "2026-11-01", "2026-12-01T00:00"),
]


@pytest.mark.parametrize(("preset", "begin", "end"), PRESETS)
def test_presets_are_local_days_up_to_now(preset, begin, end):
    # Given 02:00 UTC, which is 10:00 in Taipei
    found = preset_span(preset=preset, zone="Asia/Taipei", now=utc(2026, 12, 15, 2))

    assert f"{found.from_at:%Y-%m-%d}" == begin
    assert f"{found.to_at:%Y-%m-%dT%H:%M}" == end


def behind(what, begin, end):
    span = make_span(from_at=begin, to_at=end, zone="Asia/Taipei", now=NOW)
    return read(
        b"".join(
            intervals.export(
                visible=WHOLE_CLUSTER, request=ReportRequest(span=span), now=NOW, behind=what
            )
        )
    )


def test_idle_hours_and_guarantees_lead_to_what_they_sum(ledger):
    # Given an interval that was idle for 20 minutes, half of them before the period
    held = ledger.hold(NAMES[0], "0.50", utc(2026, 11, 5), utc(2026, 11, 5, 2))
    ledger.seen(held, utc(2026, 11, 5, 0, 50), utc(2026, 11, 5, 1, 10), idle=True)
    ledger.seen(held, utc(2026, 11, 5, 1, 10), utc(2026, 11, 5, 1, 20), idle=False)
    day = (utc(2026, 11, 5, 1), utc(2026, 11, 5, 3))
    # When the lists behind the figures are exported
    seen = behind(intervals.Behind.ACTIVITY, *day)
    guaranteed = behind(intervals.Behind.GUARANTEE, *day)
    # Then each part stands there with its hours in the period, names guarded as everywhere
    assert [(row["what"], row["gpu_hours_in_period"]) for row in seen] == [
        ("idle", "0.083"),
        ("active", "0.083"),
    ]
    assert recovered(seen[0]["project"]) == NAMES[0]
    assert sum(float(row["gpu_hours_in_period"]) for row in guaranteed) == pytest.approx(2.0)
    assert {row["what"] for row in guaranteed} == {"guaranteed"}
