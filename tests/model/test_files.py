"""Files are replaced as a whole, whoever else saves, is killed, or looks."""

import io
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from skinnytrees import SkinnyTreesClassifier, load
from skinnytrees.model.storage import files

FEW = {"max_epochs": 2, "n_estimators": 4, "random_state": 0}
posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes, permissions and locks as POSIX has them")


# A program that saves, without the seconds that the rest of the library takes to import.
START = f"""
import sys, types
for name, folder in [("skinnytrees", ""), ("skinnytrees.model", "/model"), ("skinnytrees.model.storage", "/model/storage")]:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [{str(Path(files.__file__).parents[2])!r} + folder]
from skinnytrees.model.storage.files import write_bytes
"""


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    return SkinnyTreesClassifier(penalty=None, **FEW).fit(X, X[:, 0] > 0)


def content_of(model):
    stream = io.BytesIO()
    model.save(stream)
    return stream.getvalue()


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_failed_save_leaves_the_old_file_and_nothing_beside_it(model, tmp_path, monkeypatch):
    file = tmp_path / "model"
    file.write_bytes(b"the old file")

    def fail(descriptor):
        raise OSError("No space left on device")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        model.save(file)
    assert names_in(tmp_path) == ["model"]
    assert file.read_bytes() == b"the old file"


def test_saves_of_many_threads_to_one_file_all_succeed(model, tmp_path):
    file = tmp_path / "model.skinny"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: model.save(file), range(240)))
    assert names_in(tmp_path) == ["model.skinny"]
    assert file.read_bytes() == content_of(model)


@posix
def test_saves_of_several_processes_to_one_file_all_succeed(tmp_path):
    file = tmp_path / "model.skinny"
    program = "for _ in range(40): write_bytes(sys.argv[1], sys.argv[2].encode() * 1000)"
    running = [subprocess.Popen([sys.executable, "-c", START + program, str(file), letter]) for letter in "abc"]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert names_in(tmp_path) == ["model.skinny"]
    assert file.read_bytes() in {letter * 1000 for letter in (b"a", b"b", b"c")}


@posix
def test_a_link_is_followed_and_stays_a_link(model, tmp_path):
    (tmp_path / "store").mkdir()
    link, target = tmp_path / "latest", tmp_path / "store" / "model-1"
    link.symlink_to(Path("store") / "model-1")
    for _ in range(2):  # to a file that is not there yet, and to one that is
        model.save(link)
        assert link.is_symlink()
        assert target.read_bytes() == content_of(model)
    assert names_in(tmp_path / "store") == ["model-1"]


@posix
def test_permissions_of_a_file_are_kept_and_those_of_a_new_one_are_the_usual(model, tmp_path):
    file, new = tmp_path / "model", tmp_path / "new"
    file.touch(0o600)
    before = os.umask(0o027)
    try:
        model.save(file)
        model.save(new)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


@posix
def test_owner_and_group_of_a_file_are_kept_where_that_is_allowed(model, tmp_path):
    """Else those who share a file by its group could no longer read it after a colleague has saved."""
    file = tmp_path / "model"
    file.touch()
    own, others = os.getegid(), [group for group in os.getgroups() if group != os.getegid()]
    owner, group = (12345, 23456) if os.geteuid() == 0 else (os.geteuid(), others[0] if others else own)
    os.chown(file, owner, group)
    file.chmod(0o660)
    model.save(file)
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (owner, group, 0o660)


@posix
def test_file_is_saved_where_its_owner_may_not_be_kept(model, tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(1, "Operation not permitted")

    file = tmp_path / "model"
    file.touch(0o640)
    monkeypatch.setattr(os, "fchown", refuse)
    model.save(file)
    assert file.read_bytes() == content_of(model)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written_is_refused(model, tmp_path):
    file = tmp_path / "model"
    file.touch(0o400)
    with pytest.raises(PermissionError, match="may not be written"):
        model.save(file)


@posix
def test_a_pipe_is_written_to_and_read_from_and_stays_a_pipe(model, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=model.save, args=(pipe,))
    writer.start()
    again = load(pipe)
    writer.join()
    assert content_of(again) == content_of(model)
    assert names_in(tmp_path) == ["pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix
def test_a_device_is_written_to_and_not_replaced(model):
    model.save("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@posix
def test_a_socket_is_refused(model, tmp_path, monkeypatch):
    import socket

    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("door")
        with pytest.raises(OSError, match="not a file"):
            model.save("door")


@posix
def test_what_killed_saves_have_left_is_removed_and_what_others_write_is_not(model, tmp_path):
    left, of_another = tmp_path / "model.0123456789abcdef.part", tmp_path / "other.0123456789abcdef.part"
    for file in (left, of_another, tmp_path / "model.notes.part"):
        file.write_bytes(b"half a file")
    with files._new_file_beside(tmp_path / "model") as (under_way, _):
        model.save(tmp_path / "model")
        assert under_way.exists()
        assert not left.exists()
    assert names_in(tmp_path) == ["model", "model.notes.part", "other.0123456789abcdef.part"]


def test_a_name_as_long_as_the_file_system_allows_is_saved(model, tmp_path):
    for name in ("m" * 255, "ä" * 127):
        model.save(tmp_path / name)
        assert names_in(tmp_path) == [name]
        (tmp_path / name).unlink()


@posix
def test_a_save_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path):
    """SIGKILL at a random moment of a program that does nothing but save two contents in turn."""
    file = tmp_path / "model.skinny"
    program = """
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        write_bytes(sys.argv[1], letter * 2_000_000)
"""
    files.write_bytes(file, b"the save before")
    rng = np.random.default_rng(0)
    for _ in range(int(os.environ.get("SKINNYTREES_KILLS", "5"))):
        with subprocess.Popen([sys.executable, "-c", START + program, str(file)], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.02 + 0.08 * rng.random())
            process.send_signal(signal.SIGKILL)
        content = file.read_bytes()
        assert content in (b"a" * 2_000_000, b"b" * 2_000_000, b"the save before")
        files.write_bytes(file, b"the save before")
        assert names_in(tmp_path) == ["model.skinny"]
