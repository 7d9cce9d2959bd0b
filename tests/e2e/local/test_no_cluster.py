"""The commands of a cluster without a cluster: exit 1, and one sentence that names the missing part."""

import socket
import threading

import pytest

JOB = """apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: j}
spec: {image: x, command: ["true"], nodes: 1}
"""
COMMANDS = {"submit": ["submit", "job.yaml"], "submit-wait": ["submit", "job.yaml", "--wait"], "status": ["status"],
            "status-watch": ["status", "j", "--watch"], "logs": ["logs", "j"], "logs-follow": ["logs", "j", "--follow"],
            "delete": ["delete", "j"]}
every_command = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture
def said(lockstep, tmp_path):
    """Runs a command and returns its one line."""
    def start(name, *more, deadline=15):
        (tmp_path / "job.yaml").write_text(JOB)
        words = [str(tmp_path / word) if word == "job.yaml" else word for word in COMMANDS[name]]
        command = lockstep(*words, *more)
        assert command.wait(deadline) == 1, command
        assert command.out == "" and command.err.count("\n") == 1, command
        assert command.err.startswith(f"lockstep {words[0]}: "), command
        return command.err.split(": ", 1)[1]

    return start


def kubeconfig(folder, server):
    path = folder / "kubeconfig"
    path.write_text("apiVersion: v1\nkind: Config\ncurrent-context: here\n"
                    f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
                    "users: [{name: u, user: {}}]\ncontexts: [{name: here, context: {cluster: c, user: u}}]\n")
    return path


@every_command
def test_without_a_kubeconfig_it_says_where_one_can_be(said, name):
    sentence = said(name)
    for word in ("no kubeconfig", "KUBECONFIG", "~/.kube/config", "--kubeconfig"):
        assert word in sentence, sentence


@every_command
def test_a_server_that_nobody_listens_for_is_named(said, tmp_path, name):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    sentence = said(name, "--kubeconfig", kubeconfig(tmp_path, f"https://127.0.0.1:{port}"))
    assert sentence.startswith(f"https://127.0.0.1:{port} does not answer: connection refused"), sentence
    assert "kubeconfig" in sentence, "it does not say where the address comes from: " + sentence


def test_a_server_that_is_none_is_named(said, tmp_path):
    # Something listens there, but says no word of TLS or HTTP and closes.
    with socket.create_server(("127.0.0.1", 0)) as other:
        def answer():
            while True:
                try:
                    connection, _ = other.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"220 mail\r\n")
                    connection.recv(4096)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            port = other.getsockname()[1]
            sentence = said("status", "--kubeconfig", kubeconfig(tmp_path, f"https://127.0.0.1:{port}"))
            assert f"127.0.0.1:{port}" in sentence, sentence
        finally:
            other.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("more, sentence", [
    (["--kubeconfig", "nowhere"], "cannot read nowhere: No such file or directory"),
    (["--kubeconfig", "kubeconfig", "--context", "there"], "there is no context 'there'"),
], ids=["no-file", "no-context"])
def test_a_kubeconfig_that_does_not_hold_it_is_named(said, tmp_path, more, sentence):
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    assert sentence in said("status", *[str(path) if word == "kubeconfig" else word for word in more])
