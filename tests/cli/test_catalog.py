from __future__ import annotations

import json


def names(text: str) -> list[str]:
    return [row["name"] for row in json.loads(text)["accelerators"]]


def test_a_page_names_the_next_one(run, backend):
    result = run("catalog", "accelerators", "--filter", "vendor = nvidia", "--page-size", "1")
    assert result.exit_code == 0
    assert (backend.requests[0].filter, backend.requests[0].page_size) == ("vendor = nvidia", 1)
    assert "device-0" in result.stdout
    assert "80.00" in result.stdout
    assert "--page-token 1" in result.stderr


def test_a_page_token_goes_on_from_there(run):
    result = run("catalog", "accelerators", "--page-token", "2", "--output", "json")
    assert names(result.stdout) == ["accelerators/device-2"]
    assert json.loads(result.stdout)["next_page_token"] == ""


def test_all_pages_come_as_one(run, backend):
    result = run("catalog", "accelerators", "--all", "--filter", "f", "--output", "json")
    assert names(result.stdout) == [f"accelerators/device-{number}" for number in range(3)]
    assert json.loads(result.stdout)["next_page_token"] == ""
    assert [request.page_token for request in backend.requests] == ["", "1", "2"]
    assert {request.filter for request in backend.requests} == {"f"}
    assert result.stderr == ""


def test_an_unknown_name_shows_near_names(run):
    result = run("catalog", "accelerator", "h100-sxm-90gb")
    assert result.exit_code == 1
    assert "did you mean h100-sxm-80gb, h200-sxm-141gb?" in result.stderr


def test_one_entry_shows_its_known_fields(run):
    result = run("catalog", "mig-profile", "migBoards/a100-80gb/profiles/19")
    assert result.exit_code == 0
    assert "1g.10gb" in result.stdout
    # Not published in the made-up answer, so not shown as a zero.
    assert "memory_bytes" not in result.stdout


def test_a_page_size_out_of_range_is_a_usage_error(run, backend):
    for size in ("0", "501", "x"):
        assert run("catalog", "accelerators", "--page-size", size).exit_code == 2
    assert not backend.requests
