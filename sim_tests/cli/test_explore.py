# SPDX-License-Identifier: Apache-2.0
"""The explorer: its answers, its server, and its page in a browser."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.explorer import evaluate
from flows.explorer.builds import Builder
from flows.explorer.draft import values_of
from flows.explorer.server import HOST, Server
from flows.explorer.worker import Worker
from hwgen.cli import main
from hwgen.core.load import load_draft
from hwgen.core.registry import families
from hwgen.errors import InputError
from sim_tests.support.browser import WIDTHS, launch_browser, open_page
from sim_tests.support.paths import CONFIGS

SHIPPED = sorted(CONFIGS.glob("*.yaml"))


def control(answer: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the control of a parameter."""
    return next(each for each in answer["controls"] if each["field"] == field)


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", families())
def test_defaults_of_every_family_are_legal(family: str) -> None:
    answer = evaluate.check({"family": family})
    assert answer["problems"] == []
    assert yaml.safe_load(answer["text"]) == {"name": f"{family}_core", "family": family}
    for each in answer["controls"]:
        if each["style"] == "choice":
            assert {"value": each["value"], "possible": True} in each["choices"], each["field"]
    assert evaluate.cycles({"family": family})["cycles"] > 0


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_survive(path: Path) -> None:
    draft = load_draft(path)
    request = {"family": draft.params.family, "name": draft.params.name, "values": values_of(draft)}
    answer = evaluate.check(request)
    assert answer["problems"] == []
    assert yaml.safe_load(answer["text"]) == draft.document.data


def test_choices_that_break_a_rule_are_marked() -> None:
    answer = evaluate.check({"family": "systolic"})
    choices = {each["value"]: each["possible"] for each in control(answer, "array.pe")["choices"]}
    assert choices == {"mac": True, "carry_save": True, "hybrid": False}
    answer = evaluate.check({"family": "systolic", "values": {"activation": "fp16"}})
    assert answer["problems"] == [] or answer["problems"][0]["field"]
    rows = control(answer, "array.rows")
    assert (rows["low"], rows["high"], rows["whole"]) == (1, 256, True)


def test_problems_name_the_field_and_what_is_allowed() -> None:
    answer = evaluate.check({"family": "systolic", "values": {"array.rows": 300}})
    assert answer["problems"] == [{"field": "array.rows", "message": "must be 1..256, not 300"}]
    assert control(answer, "array.rows")["value"] == 300
    assert evaluate.cycles({"family": "systolic", "workload": "../x"})["problems"][0]["field"] == (
        "workload"
    )


def test_a_core_inside_an_engine_can_be_changed_in_part() -> None:
    answer = evaluate.check({"family": "gemm_stream", "values": {"compute.array.rows": 8}})
    assert answer["problems"] == []
    assert control(answer, "compute.array.rows")["value"] == 8
    compute = yaml.safe_load(answer["text"])["compute"]
    assert compute["family"] == "systolic"
    assert compute["array"] == {"dataflow": "weight_stationary", "rows": 8}
    assert not [each for each in answer["controls"] if each["field"] == "compute.name"]


def test_costs_are_those_of_the_data_sheet() -> None:
    request = {"family": "systolic", "values": {"array.rows": 3, "array.cols": 2}}
    answer = evaluate.costs({**request, "workload": "8,8,8"})
    assert [tile[0] for tile in answer["tiles"]][:4] == ["purpose", "size", "speed", "8x8x8"]
    assert "6 x pe" in answer["diagram"]
    assert answer["timing"].startswith("<svg")


def test_cycles_are_those_of_the_costs() -> None:
    for family in ("systolic", "gemm_stream"):
        request = {"family": family, "workload": "minilm_l6"}
        tile = next(each for each in evaluate.costs(request)["tiles"] if each[0] == "minilm_l6")
        assert f"{evaluate.cycles(request)['text']} cycles" in tile


# -- worker and server ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    first = {"family": "systolic", "name": "", "values": {"array.rows": 4, "array.cols": 4}}
    result = Server(0, first)
    thread = threading.Thread(target=result.serve_forever)
    thread.start()
    yield result
    result.shutdown()
    thread.join()
    result.server_close()
    assert all(process.poll() is not None for worker in result.workers.values()
               for process in worker.processes)  # fmt: skip


def send(server: Server, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    """Return the status and the text of an answer."""
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(server.address + path, body or None, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_requests(server: Server) -> None:
    body = json.dumps({"family": "systolic", "values": {}}).encode()
    status, text = send(server, "cycles", body)
    assert status == 200
    assert json.loads(text)["text"] == "147,475"
    assert send(server, "check", b"[]")[0] == 400
    assert send(server, "check", b"{")[0] == 400
    assert send(server, "check", b'{"values": 3}')[0] == 400
    assert send(server, "check", b" " * (1 << 17))[0] == 400
    assert send(server, "check", body, **{"Content-Type": "text/plain"})[0] == 400
    assert send(server, "other", body)[0] == 404
    assert send(server, "other", b"")[0] == 404
    assert send(server, "check", body, Host="example.org")[0] == 400
    assert "no family is called" in send(server, "check", b'{"family": "x"}')[1]


def test_a_closed_tab_is_no_error(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    host = f"Host: {HOST}:{server.server_address[1]}\r\n"
    body = json.dumps({"family": "systolic", "values": {}})
    head = f"POST /cycles HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
    for _ in range(3):
        with socket.create_connection((HOST, server.server_address[1])) as tab:
            tab.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            tab.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    assert send(server, "check", body.encode())[0] == 200
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.rotate(4)
def test_a_design_that_is_too_large_ends_in_a_message() -> None:
    worker = Worker(limit_s=20.0)
    try:
        small = {"family": "systolic", "values": {}}
        assert worker.ask("cycles", small)["cycles"] == 147_475
        worker.limit_s = 0.3
        large = {"family": "systolic", "values": {"array.rows": 250, "array.cols": 255}}
        assert "too large to explore" in worker.ask("costs", large)["failed"]
        worker.limit_s = 20.0
        assert worker.ask("cycles", small)["cycles"] == 147_475  # by another process
        worker.process.kill()
        assert "without a result" in worker.ask("cycles", small)["failed"]
        assert worker.ask("cycles", small)["cycles"] == 147_475
    finally:
        worker.close()


def test_a_port_in_use(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.server_address[1]
    assert main(["explore", "--port", str(port), "--no-browser"]) == 2
    assert f"--port: port {port} is in use; name another one" in capsys.readouterr().err
    assert main(["explore", "--port", "65536"]) == 2


# -- builds --------------------------------------------------------------------------------------


def finished(builder: Builder) -> dict[str, Any]:
    """Return the state of a build that has ended."""
    for _ in range(600):
        if builder.progress()["state"] != "running":
            return builder.progress()
        time.sleep(0.1)
    raise AssertionError("the build goes on")


def test_a_build_is_written_and_nothing_else_replaced(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    request = {"family": "systolic", "name": "tiny", "directory": "new/tiny",
               "values": {"array.rows": 2, "array.cols": 2}}  # fmt: skip
    for _ in range(2):  # a build may be replaced
        assert builder.start(request)["state"] == "running"
        with pytest.raises(InputError, match="a build is running"):
            builder.start(request)
        state = finished(builder)
        assert state["state"] == "done", state
        assert "tiny.v" in state["text"]
        assert "module tiny(" in (tmp_path / "new" / "tiny" / "tiny.v").read_text()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tiny.v").touch()
    (tmp_path / "away").symlink_to("/")
    for name in ("mine", "mine/tiny.v", "new"):
        with pytest.raises(InputError, match=f"{name} exists and is not a build of hwgen"):
            builder.start({**request, "directory": name})
    for name in ("", ".", "..", "/tmp/elsewhere", "away/tmp/elsewhere", "a\0b"):
        with pytest.raises(InputError, match="a directory must be named that is below"):
            builder.start({**request, "directory": name})
    with pytest.raises(InputError, match="the configuration is not legal"):
        builder.start({**request, "values": {"array.rows": 300}})
    slow = {**request, "directory": "slow", "values": {"target.clock_mhz": 5000,
            "pipeline.pe": "auto"}}  # fmt: skip
    builder.start(slow)
    state = finished(builder)
    assert state["state"] == "failed"
    assert "tiny.yaml:" in state["text"]
    assert str(tmp_path) not in state["text"]
    assert not (tmp_path / "slow").exists()


@pytest.mark.slow
@pytest.mark.rotate(8)
def test_a_build_ends_with_the_server(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    builder.start({"family": "gemm_stream", "directory": "engine"})
    builder.close()
    assert builder.progress()["state"] == "failed"
    assert not list(tmp_path.iterdir())


# -- page ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch_browser() as result:
        yield result


@pytest.mark.slow
@pytest.mark.rotate(4)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_follows_its_controls(browser: Any, server: Server, width: int) -> None:
    with open_page(browser, server.address, width) as tab:
        done = "!document.querySelector('#{}').classList.contains('pending')"
        tab.wait_for_function(done.format("diagram"))
        assert tab.locator("#diagram svg .box").count() >= 6
        assert "16 x pe" in tab.inner_html("#diagram")
        assert tab.locator("#tiles .tile").count() == 6
        slider = tab.locator("[data-slider='array.rows']")
        before = tab.inner_text("#cycles")
        slider.fill("7")
        tab.wait_for_function(done.format("cycles"))
        assert tab.inner_text("#cycles") != before
        tab.wait_for_function(done.format("diagram"))
        rows = yaml.safe_load(tab.inner_text("#yaml"))["array"]["rows"]
        assert f"{4 * rows} x pe" in tab.inner_html("#diagram")
        tab.locator("input[data-field='array.rows']").fill("1000")
        tab.locator("input[data-field='array.rows']").press("Tab")
        tab.wait_for_selector("#messages li")
        assert tab.inner_text("#messages") == "array.rows: must be 1..256, not 1000"
        for part in ("tiles", "diagram", "timing"):
            assert tab.inner_text(f"#{part}") == ""
        assert tab.is_disabled("#build")
        tab.click("#defaults")
        tab.wait_for_function("document.querySelectorAll('#messages li').length === 0")
        tab.select_option("#family", "cube")
        tab.wait_for_selector("[data-slider='array.depth']")
        assert tab.inner_text("#yaml").strip() == "name: cube_core\nfamily: cube"
        option = tab.locator("[data-field='array.pe'] option", has_text="scalable")
        assert option.get_attribute("disabled") is not None
        tab.reload()
        tab.wait_for_function(done.format("cycles"))
        assert tab.input_value("#family") == "cube"


@pytest.mark.slow
@pytest.mark.rotate(4)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_starts_a_build(
    browser: Any, server: Server, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "builder", Builder(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").touch()
    with open_page(browser, server.address, width) as tab:
        tab.wait_for_selector("#build:enabled")
        assert tab.inner_text("#folder") == str(tmp_path)
        assert tab.input_value("#directory") == "build/systolic_core"
        tab.fill("#directory", "mine")
        tab.click("#build")
        tab.wait_for_selector("#build-status.bad")
        assert "mine exists and is not a build of hwgen" in tab.inner_text("#build-status")
        tab.fill("#directory", "out")
        tab.click("#build")
        tab.wait_for_function(
            "document.querySelector('#build-status').textContent.startsWith('out written in')"
        )
        assert "systolic_core.v" in tab.inner_text("#build-text")
        assert (tmp_path / "out" / "systolic_core.v").is_file()
