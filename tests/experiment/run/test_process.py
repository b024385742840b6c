"""The frame of a stage: one line for a user's error, exit statuses, interruption."""

import logging
import subprocess
import sys

import pytest

from hosm.experiment.run.process import StageError, has_ended, identity, main, silenced
from hosm.experiment.run.stage import write_csv, write_json


def failing(error):
    def stage():
        raise error

    return stage


@pytest.mark.parametrize("error", [StageError("no GPU"), ValueError("no GPU"), OSError("no GPU")])
def test_a_users_error_is_one_line_and_status_one(error, capsys):
    with pytest.raises(SystemExit) as stop:
        main(failing(error))
    assert stop.value.code == 1
    assert capsys.readouterr().err == "error: no GPU\n"


def test_a_programmers_error_keeps_its_traceback():
    with pytest.raises(KeyError):
        main(failing(KeyError("bug")))


def test_an_interrupt_has_its_own_status():
    with pytest.raises(SystemExit) as stop:
        main(failing(KeyboardInterrupt()))
    assert stop.value.code == 130


STOPPED = """
import time
from hosm.experiment.run.process import main

def stage():
    try:
        print("began", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("keeping", flush=True)
        time.sleep(0.5)
        print("kept", flush=True)
        raise

main(stage)
"""


def test_a_second_sigterm_does_not_end_what_the_first_one_began():
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for said in ("began", "keeping"):
            assert process.stdout.readline() == f"{said}\n"
            process.terminate()
        assert process.stdout.read() == "kept\n"
    assert process.returncode == 130


RAY = """
import atexit, os, sys, types
from hosm.experiment.run.process import main

sys.modules["ray"] = types.SimpleNamespace(is_initialized=lambda: True)
atexit.register(os._exit, 1)  # as a thread of Ray ends the process that shuts Ray down

def stage():
    print("kept")  # into a pipe, so that it waits to be written
    raise KeyboardInterrupt

main(stage)
"""


def test_a_stopped_run_has_its_own_status_whatever_ray_does_at_the_end():
    done = subprocess.run([sys.executable, "-c", RAY], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "kept\n", "interrupted\n")


def test_wrong_arguments_are_an_error():
    def stage(name):
        raise AssertionError(name)

    with pytest.raises(SystemExit, match="the arguments of stage are wrong"):
        main(stage)


def test_an_option_is_told_and_help_is_given(capsys):
    def stage(folder):
        """Measure into a folder."""
        raise AssertionError(folder)

    with pytest.raises(SystemExit, match="stage must be given no options, got --quick"):
        main(stage, "--quick")
    with pytest.raises(SystemExit) as end:
        main(stage, "--help")
    assert end.value.code == 0
    assert capsys.readouterr().out == "Measure into a folder.\n"


def test_a_command_that_takes_options_judges_them_itself():
    seen = []

    def command(*options):
        seen.extend(options)

    main(command, "--json", "--js")
    assert seen == ["--json", "--js"]


def test_a_process_is_known_by_host_number_and_start():
    host, number, started = identity().rsplit(" ", 2)
    assert not has_ended(identity())
    assert has_ended(f"{host} {number} {float(started) - 1}")  # another had the number before
    assert not has_ended(f"elsewhere {number} {float(started) - 1}")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert has_ended(f"{host} {ended.pid} {started}")


def test_loggers_are_silenced_and_speak_again(caplog):
    with silenced("a", "b"):
        logging.getLogger("a").error("unheard")
    logging.getLogger("a").error("heard")
    assert caplog.messages == ["heard"]


def test_a_failed_write_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "numbers.json"
    write_json({"a": 1}, path)
    with pytest.raises(TypeError):
        write_json({"a": object()}, path)
    assert path.read_text() == '{\n  "a": 1\n}\n'
    with pytest.raises(AttributeError):
        write_csv(None, path)
    assert [p.name for p in tmp_path.iterdir()] == ["numbers.json"]
