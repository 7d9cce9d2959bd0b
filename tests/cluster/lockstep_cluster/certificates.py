"""Keys, certificates and kubeconfigs of a cluster, made by the openssl program.

All keys are on the P-256 curve: fast to make.
"""

import base64

from .host import run
from .layout import write_whole

DAYS = "30"


def make_authority(cluster):
    cluster.pki.mkdir(parents=True, exist_ok=True)
    cluster.pki.chmod(0o700)
    _openssl(
        cluster,
        "ca",
        "/CN=lockstep-test-cluster",
        [
            "-addext",
            "basicConstraints=critical,CA:true",
            "-addext",
            "keyUsage=critical,digitalSignature,keyCertSign,cRLSign",
        ],
    )


def make_service_account_key(cluster):
    run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", cluster.pki / "sa.key")
    run("openssl", "pkey", "-in", cluster.pki / "sa.key", "-pubout", "-out", cluster.pki / "sa.pub")


def make_server(cluster, name, addresses):
    alternatives = ",".join(("IP:" if word[0].isdigit() else "DNS:") + word for word in addresses)
    _signed(cluster, name, f"/CN={name}", "serverAuth", ["-addext", f"subjectAltName={alternatives}"])


def make_client(cluster, name, user, group=""):
    """A client certificate <name>.crt with key <name>.key; Kubernetes reads the user from CN and the group from O."""
    _signed(cluster, name, (f"/O={group}" if group else "") + f"/CN={user}", "clientAuth", [])


def make_kubeconfig(cluster, name, path):
    """A kubeconfig with everything inside, for the client certificate of that name."""

    def inside(file):
        return base64.b64encode((cluster.pki / file).read_bytes()).decode()

    write_whole(
        path,
        f"""apiVersion: v1
kind: Config
clusters:
- name: lockstep-{cluster.name}
  cluster:
    server: {cluster.api_server}
    certificate-authority-data: {inside("ca.crt")}
users:
- name: {name}
  user:
    client-certificate-data: {inside(name + ".crt")}
    client-key-data: {inside(name + ".key")}
contexts:
- name: lockstep-{cluster.name}
  context:
    cluster: lockstep-{cluster.name}
    user: {name}
current-context: lockstep-{cluster.name}
""",
        mode=0o600,
    )


def _signed(cluster, name, subject, usage, more):
    _openssl(
        cluster,
        name,
        subject,
        [
            "-CA",
            cluster.pki / "ca.crt",
            "-CAkey",
            cluster.pki / "ca.key",
            "-addext",
            "basicConstraints=critical,CA:false",
            "-addext",
            "keyUsage=critical,digitalSignature",
            "-addext",
            f"extendedKeyUsage={usage}",
            *more,
        ],
    )


def _openssl(cluster, name, subject, more):
    # An empty configuration instead of the machine's: nothing of it can leak into the certificates.
    config = cluster.pki / "openssl.cnf"
    config.write_text("[req]\ndistinguished_name = dn\n[dn]\n")
    run(
        "openssl",
        "req",
        "-x509",
        "-config",
        config,
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-sha256",
        "-days",
        DAYS,
        "-subj",
        subject,
        "-keyout",
        cluster.pki / f"{name}.key",
        "-out",
        cluster.pki / f"{name}.crt",
        *more,
    )
