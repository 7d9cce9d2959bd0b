"""The exit status of `lockstep run` is the job's, and what stops a job from starting is one sentence."""

import json
import socket
import subprocess

import pytest

import e2e
import jobs


def shell(name, script, **spec):
    return jobs.shell(name, script, image="none", podTemplate={}, **spec)


def attempts(command):
    return json.loads((command.folder / "run/job.json").read_text())["status"]["attempts"]


def test_a_rank_that_exits_7_gives_7(run):
    command = run(shell("seven", "[ $RANK = 1 ] && { echo no more disk >&2; exit 7; }; exec sleep 100", nodes=3,
                        restart={"maxRestarts": 0}))
    assert command.wait(30) == 7, command
    assert "seven failed after" in command.out and "rank 1 exited with code 7" in command.out, command
    assert "no more disk" in command.out, command
    assert [(a["cause"], a["firstFailingRank"], a["exitCode"]) for a in attempts(command)] == [("ProcessExit", 1, 7)]
    command.nothing_is_left()


def test_a_rank_that_dies_at_once_again_and_again_is_given_up(run):
    command = run(shell("dies", "exit 9", nodes=2, restart={"maxRestarts": 2}))
    assert command.wait(30) == 9, command
    assert "restart.maxRestarts (2) was used up" in command.out, command
    assert [a["exitCode"] for a in attempts(command)] == [9, 9, 9]
    command.nothing_is_left()


def test_a_rank_that_dies_of_a_signal_gives_128_and_the_signal(run):
    command = run(shell("segv", "sh -c 'kill -SEGV $PPID'; true", restart={"maxRestarts": 0}))
    assert command.wait(30) == 139, command
    assert "rank 0 was ended by SIGSEGV" in command.out, command
    command.nothing_is_left()


@pytest.mark.parametrize("word", ["lockstep-trainr", "/no/such/program", "/etc/passwd"])
def test_a_command_that_is_nowhere_is_told_before_anything_starts(run, word):
    command = run(shell("nowhere", "true"), "--set", f'spec.command=["{word}"]')
    assert command.wait(10) == 127, command
    assert command.err == f'lockstep run: the command "{word}" was found neither beside lockstep nor in PATH\n'
    assert command.out == "" and not (command.folder / "run").exists()


def test_a_port_in_use_is_named(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = run(shell("port", "true", nodes=2, rendezvous={"kind": "Torch", "port": port},
                            restart={"maxRestarts": 1}))
        assert command.wait(30) == 1, command
    assert [a["cause"] for a in attempts(command)] == ["PortInUse", "PortInUse"]
    assert f"port {port} of spec.rendezvous.port cannot be bound on 127.0.0.1" in command.out, command
    command.nothing_is_left()


def test_a_working_folder_that_is_not_there_is_named(run):
    command = run(shell("folder", "true", workingDir="/no/such/folder", restart={"maxRestarts": 0}))
    assert command.wait(30) == 128, command
    assert "the working folder /no/such/folder cannot be entered: No such file or directory" in command.out, command
    command.nothing_is_left()


HEAD = "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: x}\n"
FILES = {
    # name: (contents or None for no file, what the sentence says)
    "not-yaml": ("a: [b\n c: d", "not-yaml:2:3: this is not YAML: end of sequence flow not found"),
    "colon": ("a: b: c\n", "colon:1:5: this is not YAML: illegal map value"),
    "empty": ("", "empty:1:1: the file is empty"),
    "binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "binary:1:1: this line is not UTF-8 text"),
    "list": ("[1, 2]\n", "list:1:1: a TrainingJob must be a map with apiVersion, kind, metadata and spec"),
    "two": ("a: 1\n---\nb: 2\n", "two:3:1: a second document begins here; one file holds one"),
    "circle": ("a: &a [*a]\n", "circle:1:8: this alias stands inside what it refers to"),
    "typo": (HEAD + "spec: {image: x, command: [a], nodse: 1, nodes: 1}\n",
             "typo:4:32: spec.nodse: unknown field; did you mean nodes?"),
    "none": (HEAD + "spec: {image: x, command: [a], nodes: 0}\n", "none:4:32: spec.nodes: must be at least 1"),
    "huge": (b"#" * (1 << 20) + b"\n#", "huge is larger than 1 MiB: not a job file"),
    "missing": (None, "cannot read missing: No such file or directory"),
    "folder/": (None, "folder is a folder, not a job file"),
    "/proc/self/mem": (None, "cannot read /proc/self/mem: Input/output error"),
}


@pytest.mark.parametrize("name", FILES, ids=lambda name: name.strip("/").replace("/", "-"))
def test_a_file_that_is_no_job_is_one_sentence_and_1(lockstep, tmp_path, name):
    contents, sentence = FILES[name]
    folder = tmp_path / "command-0"
    command = None
    if contents is not None or name.endswith("/"):
        path = tmp_path / name.rstrip("/")
        path.mkdir() if name.endswith("/") else path.write_bytes(contents if isinstance(contents, bytes)
                                                                 else contents.encode())
        command = lockstep("run", f"../{path.name}")
        sentence = sentence.replace(path.name, f"../{path.name}", 1)
    else:
        command = lockstep("run", name)
    assert command.wait(10) == 1, command
    assert command.err.startswith(f"lockstep run: {sentence}"), command
    assert command.err.count("\n") == 1 and command.out == "", command
    assert sorted(entry.name for entry in folder.iterdir()) == ["stderr", "stdout"], \
        "it made something, though nothing ran"


@pytest.mark.parametrize("words, sentence", [
    ([], "job is required"),
    (["x.yaml", "--workers", "0"], "--workers: Value 0 not in range 1 to 4096"),
    (["x.yaml", "--determinstic"], 'there is no option "--determinstic"; did you mean "--deterministic"?'),
], ids=["no-file", "no-workers", "misspelt"])
def test_wrong_usage_is_2(lockstep, words, sentence):
    command = lockstep("run", *words)
    assert command.wait(10) == 2, command
    assert command.err == f"lockstep run: {sentence}\nSee lockstep run --help.\n"


def test_the_help_says_what_the_exit_statuses_mean(lockstep):
    command = lockstep("run", "--help")
    assert command.wait(10) == 0
    said = " ".join(command.out.split())
    for promise in ("otherwise that of the rank that failed", "1 when it could not start", "2 for wrong usage",
                    "127 when its command is not found", "130 after Ctrl-C"):
        assert promise in said, said


def test_an_answer_that_cannot_be_written_is_told_and_is_no_success():
    with open("/dev/full", "w") as full:
        done = subprocess.run([e2e.BUILD / "bin/lockstep", "validate", e2e.ROOT / "examples/minimal.yaml"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=10)
    assert done.returncode == 1
    assert done.stderr == "lockstep: standard output cannot be written: No space left on device\n"
