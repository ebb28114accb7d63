"""The cluster's certificate authority and one identity for each component, made with openssl.

A component is who its certificate says it is (CN = user, O = group): RBAC and the node authorizer act on
these names.
"""

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

DAYS = "3650"


@dataclass(frozen=True)
class Identity:
    """A client of the API server: file name, user (CN) and group (O)."""

    file: str
    user: str
    group: str = ""


ADMIN = Identity("admin", "slidingserve-admin", "system:masters")
CONTROLLER_MANAGER = Identity("controller-manager", "system:kube-controller-manager")
SCHEDULER = Identity("scheduler", "system:kube-scheduler")
PROXY = Identity("proxy", "system:kube-proxy")
KUBELET_CLIENT = Identity("kubelet-client", "kube-apiserver-kubelet-client")
FRONT_PROXY = Identity("front-proxy", "front-proxy-client")
"""The API server towards API services behind it, which trust the user that it names."""


def kubelet(node: str) -> Identity:
    """The kubelet of one node, as the node authorizer wants it."""
    return Identity("kubelet", f"system:node:{node}", "system:nodes")


def create(directory: Path, server_names: list[str], identities: list[Identity]) -> None:
    """Make ca, apiserver, service-account and client keys in `directory`; a no-op where it is complete.

    server_names: the API server's alternative names in openssl's form, such as `IP:127.0.0.1` or
    `DNS:kubernetes`.
    """
    done = directory / "complete"
    wanted = json.dumps([server_names, [identity.user for identity in identities]])
    if done.is_file() and done.read_text() == wanted:
        return
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    _openssl(directory, *_request("ca", "/CN=slidingserve-cluster"), "-x509", "-days", DAYS, "-out", "ca.crt")
    _certificate(directory, "apiserver", "/CN=kube-apiserver", f"subjectAltName={','.join(server_names)}")
    for identity in identities:
        subject = (f"/O={identity.group}" if identity.group else "") + f"/CN={identity.user}"
        _certificate(directory, identity.file, subject, "extendedKeyUsage=clientAuth")
    _openssl(directory, "genpkey", *_EC, "-out", "service-account.key")
    _openssl(directory, "pkey", "-in", "service-account.key", "-pubout", "-out", "service-account.pub")
    done.write_text(wanted)


def kubeconfig(directory: Path, identity: Identity, server: str, cluster: str) -> str:
    """A kubeconfig (JSON, which is YAML) with the certificate in it; `cluster` names the context too."""

    def data(name: str) -> str:
        return base64.b64encode((directory / name).read_bytes()).decode()

    user = {
        "client-certificate-data": data(f"{identity.file}.crt"),
        "client-key-data": data(f"{identity.file}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": data("ca.crt")}}
        ],
        "users": [{"name": identity.user, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": identity.user}}],
        "current-context": cluster,
    }
    return json.dumps(config, indent=2)


_EC = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


def _request(file: str, subject: str) -> list[str]:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{file}.key"]
    return ["req", *key, "-subj", subject]


def _certificate(directory: Path, file: str, subject: str, extension: str) -> None:
    (directory / "extensions").write_text(extension)
    _openssl(directory, *_request(file, subject), "-out", f"{file}.csr")
    signer = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", DAYS, "-extfile", "extensions"]
    _openssl(directory, "x509", "-req", "-in", f"{file}.csr", *signer, "-out", f"{file}.crt")


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)
