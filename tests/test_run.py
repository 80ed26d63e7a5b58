"""`ctxruntime run`: the program as it is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

from ctxruntime.running.command import HELP
from ctxruntime.telemetry.presets import PRESETS

SHOW = """
import sys
print(__name__, sys.argv, sys.path[0], __file__, __package__, __spec__ and __spec__.name)
print(sys.modules["__main__"].__file__)
"""
WITHOUT = """
import sys
sys.modules[{missing!r}] = None  # importing it fails, as if it were not there

from ctxruntime.cli import main
main({args!r})
"""
# The session id in a thread, which is there if hops carry.
IN_POOL = """
from concurrent.futures import ThreadPoolExecutor
import ctxruntime as ctx
pool = ThreadPoolExecutor(1)
pool.submit(int).result()  # its thread is born outside: newer Pythons have threads inherit
with ctx.session(session_id="s1"):
    print(pool.submit(ctx.SESSION_ID.get, None).result())
"""


def python(*args: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={**os.environ, **environ},
    )


def run(*args: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "ctxruntime", "run", *args, cwd=cwd, **environ)


def answer(process: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return process.returncode, process.stdout, process.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script, a module, and a package that can be run."""
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "__main__.py").write_text(SHOW)
    zipapp.create_archive(tmp_path / "package", tmp_path / "archive.pyz")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "__init__.py").touch()
    return tmp_path


PROGRAMS = {
    "script": ["show.py"],
    "script elsewhere": ["package/__main__.py"],
    "folder": ["package"],
    "archive": ["archive.pyz"],
    "module": ["-m", "show"],
    "package": ["-m", "package"],
    "submodule": ["-m", "package.__main__"],
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_finds_everything_as_under_python(folder: Path, program: list[str]) -> None:
    """`__main__`, arguments and path are those that `python` gives, options behind the program included."""
    args = [*program, "a", "--spans", "--", "-m", "--help"]

    assert answer(run(*args, cwd=folder)) == answer(python(*args, cwd=folder))


def test_two_dashes_end_the_options(folder: Path) -> None:
    """A program may begin with a dash, and the dashes are not its own."""
    (folder / "-odd.py").write_text("import sys; print(sys.argv)")

    assert answer(run("--", "-odd.py", "--", cwd=folder)) == (0, "['-odd.py', '--']\n", "")


@pytest.mark.parametrize("program", [["show.py"], ["-m", "show"], ["package"]], ids=["script", "module", "folder"])
def test_a_safe_path_stays_safe(folder: Path, program: list[str]) -> None:
    """With `python -P` no folder is put on the path that `python -P` puts not there."""
    environ = {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{folder / 'plain'}{os.pathsep}{folder}"}

    assert answer(run(*program, cwd=folder, **environ)) == answer(python(*program, cwd=folder, **environ))


def test_a_linked_script_finds_what_is_beside_the_real_one(folder: Path) -> None:
    """The folder on the path is that of the file, not that of the link."""
    (folder / "links").mkdir()
    (folder / "links" / "link.py").symlink_to(folder / "show.py")

    assert answer(run("links/link.py", cwd=folder)) == answer(python("links/link.py", cwd=folder))


ENDS = {
    "returns": "print('done')",
    "exit code": "import sys; sys.exit(7)",
    "exit message": "import sys; sys.exit('no')",
    "exit none": "raise SystemExit",
    "error": "def f():\n    raise ValueError('no')\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError from error",
    "syntax error": "def f(:",
    "hook": "import sys\nsys.excepthook = lambda kind, error, trace: print('hook', trace.tb_lineno)\n1 / 0",
    "exit functions": "import atexit, sys\natexit.register(lambda: print(sys.modules['__main__'].x))\nx = 5\n1 / 0",
    "told at exit": "import atexit, sys\natexit.register(lambda: print(repr(sys.last_value), sys.last_type))\n1 / 0",
    "thread": "import threading\nthreading.Timer(0.1, lambda: print(x, __name__)).start()\nx = 5",
    "future": "def f(x: undefined_name): pass",
    "coding": "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))",
}


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_a_script_ends_as_under_python(tmp_path: Path, code: str) -> None:
    """Exit code, output and traceback are the program's own, with no frame of ours."""
    (tmp_path / "app.py").write_text(code, encoding="latin-1")

    assert answer(run("app.py", cwd=tmp_path)) == answer(python("app.py", cwd=tmp_path))


@pytest.mark.parametrize("code", ["import sys; sys.exit(7)", "1 / 0", "import nosuchmodule"])
def test_a_module_ends_as_under_python(tmp_path: Path, code: str) -> None:
    """So does what `-m` runs; what it fails to import is its own error."""
    (tmp_path / "app.py").write_text(code)

    assert answer(run("-m", "app", cwd=tmp_path)) == answer(python("-m", "app", cwd=tmp_path))


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_program_as_under_python(tmp_path: Path, name: signal.Signals) -> None:
    """What a signal does is what it does without ctxruntime."""
    (tmp_path / "app.py").write_text("import signal, sys\nprint('up')\nsignal.raise_signal(int(sys.argv[1]))")
    args = ("app.py", str(int(name)))
    before = signal.signal(name, signal.default_int_handler)  # a shell ignores SIGINT for what runs behind it
    try:
        assert answer(run(*args, cwd=tmp_path))[0] == answer(python(*args, cwd=tmp_path))[0] == -name
    finally:
        signal.signal(name, before)


SPAWNS = """
import multiprocessing, sys
import ctxruntime as ctx

def work(number):
    return number, ctx.SESSION_ID.get(None), __name__

if __name__ == "__main__":
    with ctx.session(session_id="s1"), multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(work, [1, 2]))
"""


@pytest.mark.parametrize("program", [["app.py"], ["-m", "app"]], ids=["script", "module"])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_the_program_find_its_functions(tmp_path: Path, method: str, program: list[str]) -> None:
    """A child process imports the program's `__main__`, not ours, and has the keys of its jobs."""
    (tmp_path / "app.py").write_text(SPAWNS)
    name = "__main__" if method == "fork" else "__mp_main__"

    # That forking is dangerous where threads are is Python's to say, and not ours to hide.
    assert answer(run(*program, method, cwd=tmp_path, PYTHONWARNINGS="ignore")) == (
        0,
        f"[(1, 's1', '{name}'), (2, 's1', '{name}')]\n",
        "",
    )


@pytest.mark.parametrize("disabled", [False, True], ids=["enabled", "disabled"])
def test_hops_are_installed(tmp_path: Path, disabled: bool) -> None:
    """Keys are carried without a call of the program's, unless the environment says that nothing is to be done."""
    (tmp_path / "app.py").write_text(IN_POOL)
    process = run("app.py", cwd=tmp_path, CTXRUNTIME_DISABLED="1" if disabled else "")

    assert answer(process) == (0, "None\n" if disabled else "s1\n", "")


@pytest.mark.parametrize("missing", ["opentelemetry.sdk", "typer", "rich"])
def test_the_base_install_is_enough(tmp_path: Path, missing: str) -> None:
    """With neither the SDK nor the extra of the command line a program runs with hops."""
    (tmp_path / "app.py").write_text(IN_POOL)
    program = WITHOUT.format(missing=missing, args=["run", "app.py"])

    assert answer(python("-c", program, cwd=tmp_path)) == (0, "s1\n", "")


DISTRIBUTION = {
    "METADATA": "Metadata-Version: 2.1\nName: some\nVersion: 1\n",
    "entry_points.txt": "[console_scripts]\nsome-command = some_package:main\n",
}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with an installed package whose command is `some-command`."""
    info = tmp_path / "some-1.dist-info"
    info.mkdir()
    for name, text in DISTRIBUTION.items():
        (info / name).write_text(text)
    (tmp_path / "some_package.py").write_text(
        "import sys\ndef main():\n    print(sys.argv, sys.modules['__main__'].__name__)\n    return 3\n"
    )
    return tmp_path


def test_an_installed_command_is_found_by_its_name(installed: Path, tmp_path: Path) -> None:
    """The entry point of the package is called, and what it returns is the exit code."""
    (tmp_path / "cwd" / "some-command").mkdir(parents=True)  # a folder of the same name is no program

    process = run("some-command", "-x", cwd=tmp_path / "cwd", PYTHONPATH=str(installed))

    assert answer(process) == (3, "['some-command', '-x'] __main__\n", "")


def test_a_command_runs_as_its_script_does() -> None:
    """A real one, pytest's, finds its own name and says the same."""
    (script,) = (Path(sys.executable).parent / name for name in ["pytest"])
    own = subprocess.run([script, "--version", "--help"], capture_output=True, text=True, timeout=60)

    assert answer(run("pytest", "--version", "--help")) == answer(own)


def test_a_script_on_path_runs_if_this_python_runs_it(tmp_path: Path) -> None:
    """What no package calls its own is looked for on PATH, and refused if another Python runs it."""
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for name, line in {"ours": "/usr/bin/env python3", "shell": "/bin/sh", "other": "/bin/python3"}.items():
        (tmp_path / name).write_text(f"#!{line}\nprint('here')\n")
        (tmp_path / name).chmod(0o755)

    assert answer(run("ours", **environ)) == (0, "here\n", "")
    assert answer(run("shell", **environ)) == (
        2,
        "",
        f"ctxruntime: this is no Python script: '{tmp_path}/shell': only Python programs can be run in this process\n",
    )
    assert answer(run("other", **environ)) == (
        2,
        "",
        f"ctxruntime: another Python runs '{tmp_path}/other': install ctxruntime for /bin/python3, and use the "
        "command `ctxruntime` of that one\n",
    )


NEXT = "give the path of a script, the name of a command, or -m MODULE"
REFUSED = {
    "nothing": ([], "a program is missing: see ctxruntime run --help"),
    "no module": (["-m"], "a module is missing behind -m: see ctxruntime run --help"),
    "option": (["--span", "x", "app.py"], "there is no option '--span': see ctxruntime run --help"),
    "option value": (["--spans"], "--spans needs a value: see ctxruntime run --help"),
    "file": (["nosuch.py"], f"there is no script or command 'nosuch.py': {NEXT}"),
    "path": (["./nosuch"], f"there is no script or command './nosuch': {NEXT}"),
    "folder": (["plain"], "there is no __main__.py in 'plain': name a file in it, or run the package with -m"),
    "module": (["-m", "nosuch"], f"there is no module 'nosuch': install it for {sys.executable}, or mind the spelling"),
    "part": (["-m", "no.such"], f"there is no module 'no.such': install it for {sys.executable}, or mind the spelling"),
    "package": (
        ["-m", "plain"],
        f"there is no module 'plain.__main__': install it for {sys.executable}, or mind the spelling",
    ),
    "module's file": (["-m", "show.py"], "this is a script, no module: 'show.py': leave -m out"),
    "relative": (["-m", ".show"], "this cannot be run as a module: '.show': give its full name"),
    "preset": (
        ["--preset=nosuch", "show.py"],
        f"--preset: no preset is called 'nosuch': choose one of {', '.join(PRESETS)}, or give a Preset",
    ),
    "file to write": (
        ["--spans", "nosuch/file", "show.py"],
        "--spans: nosuch/file cannot be written (No such file or directory): "
        "name a file in a folder that is there, and that you may write to",
    ),
}


@pytest.mark.parametrize(("args", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_tried_is_said_in_one_line(folder: Path, args: list[str], message: str) -> None:
    """The exit code is 2, and the line names the thing and the next step."""
    assert answer(run(*args, cwd=folder)) == (2, "", f"ctxruntime: {message}\n")


def test_the_environment_names_the_preset_too(folder: Path) -> None:
    """A wrong name is said to be the variable's."""
    process = run("show.py", cwd=folder, CTXRUNTIME_PRESET="nosuch")

    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("ctxruntime: CTXRUNTIME_PRESET: no preset is called 'nosuch': ")


def test_spans_need_the_sdk(folder: Path) -> None:
    """Whoever asks for spans without opentelemetry-sdk is told which extra brings it."""
    program = WITHOUT.format(missing="opentelemetry.sdk", args=["run", "--spans", "x.jsonl", "show.py"])

    assert answer(python("-c", program, cwd=folder)) == (
        2,
        "",
        "ctxruntime: --spans: this needs opentelemetry-sdk, which is not installed: pip install 'ctxruntime[otel]'\n",
    )
    assert not (folder / "x.jsonl").exists()


def test_what_was_bound_is_shown_on_demand(tmp_path: Path) -> None:
    """OpenTelemetry's own variable for it gives the one line on stderr."""
    (tmp_path / "app.py").touch()
    process = run("--preset", "langfuse", "app.py", cwd=tmp_path, OTEL_LOG_LEVEL="info")

    assert process.stderr.count("\n") == 1
    assert process.stderr.startswith(
        "ctxruntime: spans: no provider of the SDK is set yet, those made later are followed; log records: no provider "
        "of the SDK is set yet, those made later are followed; hops: threading"
    )


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_fits_a_narrow_terminal(option: str) -> None:
    """The help of `run` needs no extra, fits 80 columns, and names every preset."""
    assert answer(python("-c", WITHOUT.format(missing="typer", args=["run", option]))) == (0, HELP, "")
    assert max(map(len, HELP.splitlines())) <= 80
    assert [name for name in PRESETS if name not in HELP] == []


def test_the_command_is_listed_with_the_others() -> None:
    """`ctxruntime --help` names it."""
    assert re.search(r"\brun +Run a program as it is", python("-m", "ctxruntime", "--help").stdout)
