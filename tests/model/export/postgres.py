"""A PostgreSQL server of the tests' own, in a temporary folder, reached through a socket there."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from . import runners


def _binary(name: str) -> str:
    """Debian keeps the server's programs out of the search path."""
    places = [shutil.which(name), *map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))]
    found = [place for place in places if place]
    if not found:
        pytest.skip(f"PostgreSQL's {name} is not installed")
    return found[-1]


def _unprivileged_user() -> str | None:
    """The server refuses to run as root; None stands for the present user."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


@contextlib.contextmanager
def server() -> Iterator[Path]:
    """The folder of a running server's socket."""
    initdb, control = _binary("initdb"), _binary("pg_ctl")
    runners.program("psql")
    user, folder = _unprivileged_user(), Path(tempfile.mkdtemp(prefix="pg"))
    if user is not None:
        shutil.chown(folder, user)
    as_user: dict[str, Any] = {"check": True, "cwd": folder, "user": user, "stdout": subprocess.DEVNULL}
    data, settings = str(folder / "data"), f"-c listen_addresses= -c fsync=off -k {folder}"
    try:
        subprocess.run([initdb, "-D", data, "-A", "trust", "-U", "tester", "-N", "-E", "UTF8", "--locale=C"], **as_user)
        subprocess.run([control, "-D", data, "-l", str(folder / "log"), "-o", settings, "-w", "start"], **as_user)
        yield folder
    finally:
        subprocess.run([control, "-D", data, "-m", "immediate", "stop"], **{**as_user, "check": False})
        shutil.rmtree(folder, ignore_errors=True)


def run_postgres(case: Any, folder: Path, socket: Path) -> pd.DataFrame:
    table = runners.keyed(case)
    table.to_csv(folder / "rows.csv", index=False, na_rep="NULL")
    columns = [f"{_quoted(name)} {'text' if name in case.text_columns else 'double precision'}" for name in table]
    script = (
        "\\set ON_ERROR_STOP on\n"
        f'BEGIN; CREATE TABLE "some table" ({", ".join(columns)});\n'
        f"\\copy \"some table\" FROM '{folder / 'rows.csv'}' WITH (FORMAT csv, HEADER, NULL 'NULL')\n"
        f"{runners.statement(case, folder)};\nROLLBACK;\n"
    )
    command = [runners.program("psql"), "-h", str(socket), "-U", "tester", "-d", "postgres", "-q", "--csv"]
    done = subprocess.run(command, input=script, check=True, capture_output=True, text=True)
    return pd.read_csv(StringIO(done.stdout))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
