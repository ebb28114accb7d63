"""What the engine prints: probes that went well leave no line, and in JSON every line is an object."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from slidingserve.server import logs
from slidingserve.server.launch import LaunchError, prepare

ACCESS = '%s - "%s %s HTTP/%s" %d'


def access(path: str, status: int, method: str = "GET") -> logging.LogRecord:
    """A record as uvicorn makes it."""
    args = ("127.0.0.1:5", method, path, "1.1", status)
    return logging.LogRecord("uvicorn.access", logging.INFO, "httptools_impl.py", 1, ACCESS, args, None)


@pytest.mark.parametrize(
    "path", ["/health", "/metrics", "/slidingserve/v1/state", "/slidingserve/v1/ready?x=1"]
)
def test_a_probe_that_went_well_leaves_no_line_and_one_that_failed_does(path: str) -> None:
    quiet = logs.QuietProbes()
    assert not quiet.filter(access(path, 200))
    assert quiet.filter(access(path, 503))


def test_all_other_lines_stay() -> None:
    quiet = logs.QuietProbes()
    assert quiet.filter(access("/v1/completions", 200, "POST"))
    assert quiet.filter(logging.LogRecord("vllm", logging.INFO, "x.py", 1, "/health is 200", (), None))


def test_an_api_server_hushes_its_probes_once() -> None:
    logger = logging.getLogger("uvicorn.access")
    before = list(logger.filters)
    try:
        logs.hush()
        logs.hush()
        assert len(logger.filters) == len(before) + 1
    finally:
        logger.filters[:] = before


PROCESS = """
import json, logging.config, sys
from pathlib import Path
from slidingserve.server import logs

env = logs.write_configuration(Path(sys.argv[1]))
logging.config.dictConfig(json.loads(Path(env[logs.CONFIG_PATH]).read_text()))
logging.getLogger("vllm.slidingserve").info("slidingserve: %s", "two\\nlines")
try:
    raise ValueError("no room")
except ValueError:
    logging.getLogger("vllm.v1.engine.core").exception("failed")
logging.getLogger("uvicorn.error").info("Started")
for path, status in (("/health", 200), ("/v1/models?a=1", 401)):
    text = '%s - "%s %s HTTP/%s" %d'
    logging.getLogger("uvicorn.access").info(text, "127.0.0.1:5", "GET", path, "1.1", status)
logging.getLogger("transformers").warning("deprecated")
"""


def test_every_logger_writes_one_object_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    ours, failed, started, denied, other = map(json.loads, done.stdout.splitlines())
    assert ours["message"] == "two\nlines", "our prefix is in the logger's name"
    assert (ours["logger"], ours["level"]) == ("vllm.slidingserve", "INFO")
    assert ours["time"].endswith("Z")
    assert failed["exception"].endswith("ValueError: no room")
    assert (started["logger"], other["message"]) == ("uvicorn.error", "deprecated")
    expected = {"method": "GET", "path": "/v1/models?a=1", "status": 401}
    assert {key: denied[key] for key in expected} == expected


def test_the_last_words_are_in_the_form_of_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.say("the core ended")
    assert capsys.readouterr().err == "slidingserve: the core ended\n"
    monkeypatch.setenv(logs.LOG, "json")
    logs.say("the core ended")
    assert json.loads(capsys.readouterr().err)["message"] == "the core ended"


def launched(tmp_path: Path, *words: str) -> Any:
    return prepare("m", words, config_dir=None, state_dir=tmp_path / "s", fallback=False, log_json=True)


def test_json_reaches_every_process_by_the_environment(tmp_path: Path) -> None:
    env = launched(tmp_path).env
    assert env[logs.LOG] == "json"
    assert Path(env[logs.CONFIG_PATH]).parent == tmp_path / "s"


@pytest.mark.parametrize(
    "words", ["--log-config-file x.json", "--logging-config.formatter json", "--logging_config={}"]
)
def test_json_and_a_logging_configuration_of_vllms_are_refused_together(tmp_path: Path, words: str) -> None:
    with pytest.raises(LaunchError, match=r"--log-json: .* --log[-a-z.]+ is; give one of the two"):
        launched(tmp_path, *words.split())
