"""How each component runs in the node: command lines and configuration files. Pure, but for `write`.

All paths are the node's own (`/var/lib`, `/var/log` and `/run` there are not the host's, see node.py), so
nothing here depends on where the cache lies. Configuration is written as JSON, which every reader of YAML
takes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import pki

NODE = "node1"
HOST_ADDRESS = "10.243.0.1"
NODE_ADDRESS = "10.243.0.2"
LINK = "10.243.0.0/30"
PODS = "10.244.0.0/16"
NODE_PODS = "10.244.0.0/24"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
API_PORT = 6443
CGROUP = "slidingserve"
CONTEXT = "slidingserve-local"
PAUSE_IMAGE = "localhost/slidingserve/pause:1"
COREDNS_IMAGE = "localhost/slidingserve/coredns:v1.15.0"
FAKE_GPUS = 8

ETC = "/var/lib/kubernetes"
BIN = f"{ETC}/bin"
PKI = f"{ETC}/pki"
AUDIT_LOG = "/var/log/audit.log"
CONTAINERD = "/run/containerd/containerd.sock"
SERVER_NAMES = [
    *(f"IP:{address}" for address in ("127.0.0.1", NODE_ADDRESS, API_SERVICE)),
    *(f"DNS:{name}" for name in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")),
    "DNS:kubernetes.default.svc.cluster.local",
]
IDENTITIES = [
    pki.ADMIN, pki.CONTROLLER_MANAGER, pki.SCHEDULER, pki.PROXY, pki.KUBELET_CLIENT, pki.kubelet(NODE)
]  # fmt: skip


@dataclass(frozen=True)
class Component:
    """One long-running program of the node."""

    name: str
    command: tuple[str, ...]


def _flags(**values: str | int | bool) -> list[str]:
    return [f"--{key.replace('_', '-')}={str(value).lower() if value is True or value is False else value}"
            for key, value in values.items()]  # fmt: skip


ETCD = Component(
    "etcd",
    (
        "etcd", "--unsafe-no-fsync",
        *_flags(
            data_dir="/var/lib/etcd",
            listen_client_urls="http://127.0.0.1:2379",
            advertise_client_urls="http://127.0.0.1:2379",
            listen_peer_urls="http://127.0.0.1:2380",
        ),
    ),
)  # fmt: skip

API_SERVER = Component(
    "kube-apiserver",
    (
        f"{BIN}/kube-apiserver",
        *_flags(
            etcd_servers="http://127.0.0.1:2379",
            advertise_address=NODE_ADDRESS,
            secure_port=API_PORT,
            service_cluster_ip_range=SERVICES,
            authorization_mode="Node,RBAC",
            enable_admission_plugins="NodeRestriction",
            allow_privileged=True,
            client_ca_file=f"{PKI}/ca.crt",
            tls_cert_file=f"{PKI}/apiserver.crt",
            tls_private_key_file=f"{PKI}/apiserver.key",
            kubelet_client_certificate=f"{PKI}/{pki.KUBELET_CLIENT.file}.crt",
            kubelet_client_key=f"{PKI}/{pki.KUBELET_CLIENT.file}.key",
            kubelet_preferred_address_types="InternalIP",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=f"{PKI}/service-account.pub",
            service_account_signing_key_file=f"{PKI}/service-account.key",
            audit_policy_file=f"{ETC}/audit-policy.yaml",
            audit_log_path=AUDIT_LOG,
            audit_log_mode="blocking",  # an entry is on disk before its request is answered: tests rely on it
            audit_log_maxsize=512,
            audit_log_maxbackup=1,
        ),
    ),
)

CONTAINERD_DAEMON = Component("containerd", ("containerd", "--config", f"{ETC}/containerd.toml"))

CONTROLLER_MANAGER = Component(
    "kube-controller-manager",
    (
        f"{BIN}/kube-controller-manager",
        *_flags(
            kubeconfig=f"{ETC}/{pki.CONTROLLER_MANAGER.file}.conf",
            bind_address="127.0.0.1",
            leader_elect=False,
            use_service_account_credentials=True,
            root_ca_file=f"{PKI}/ca.crt",
            service_account_private_key_file=f"{PKI}/service-account.key",
            allocate_node_cidrs=True,
            cluster_cidr=PODS,
        ),
    ),
)

SCHEDULER = Component(
    "kube-scheduler",
    (
        f"{BIN}/kube-scheduler",
        *_flags(kubeconfig=f"{ETC}/{pki.SCHEDULER.file}.conf", bind_address="127.0.0.1", leader_elect=False),
    ),
)

PROXY = Component("kube-proxy", (f"{BIN}/kube-proxy", *_flags(config=f"{ETC}/kube-proxy.json")))

KUBELET = Component(
    "kubelet",
    (
        f"{BIN}/kubelet",
        *_flags(
            config=f"{ETC}/kubelet.json",
            kubeconfig=f"{ETC}/kubelet.conf",
            hostname_override=NODE,
            node_ip=NODE_ADDRESS,
        ),
    ),
)

KUBELET_CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": f"{PKI}/ca.crt"},
    },
    "authorization": {"mode": "Webhook"},
    "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
    "cgroupDriver": "cgroupfs",
    "cgroupRoot": f"/{CGROUP}",
    "failSwapOn": False,
    "clusterDomain": "cluster.local",
    "clusterDNS": [DNS_SERVICE],
    "resolvConf": f"{ETC}/resolv.conf",  # empty: the host's search domains stay out of the pods
    "evictionHard": {"memory.available": "100Mi"},
    "imageGCHighThresholdPercent": 100,
}

PROXY_CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "clientConnection": {"kubeconfig": f"{ETC}/{pki.PROXY.file}.conf"},
    "clusterCIDR": PODS,
    "mode": "iptables",
    "hostnameOverride": NODE,
    "conntrack": {"maxPerCore": 0},  # the table's size belongs to the host
}

# ptp, not bridge: packets between pods are routed through the node, so that Services need no br_netfilter.
NETWORK: dict[str, Any] = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni-ipam",
                "ranges": [[{"subnet": NODE_PODS}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}

# restrict_oom_score_adj: without CAP_SYS_RESOURCE (as in many containers) a score cannot be lowered.
CONTAINERD_CONFIGURATION = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{ETC}/cni"
"""


def write(etc: Path, audit_policy: Path) -> None:
    """Write all configuration to `etc` (the host's view of ETC), where `etc/pki` holds the certificates."""
    (etc / "cni").mkdir(parents=True, exist_ok=True)
    texts = {
        "kubelet.json": json.dumps(KUBELET_CONFIGURATION, indent=2),
        "kube-proxy.json": json.dumps(PROXY_CONFIGURATION, indent=2),
        "cni/10-pods.conflist": json.dumps(NETWORK, indent=2),
        "containerd.toml": CONTAINERD_CONFIGURATION,
        "resolv.conf": "",
        "audit-policy.yaml": audit_policy.read_text(),
    }
    for identity in IDENTITIES:
        server = f"https://127.0.0.1:{API_PORT}"
        texts[f"{identity.file}.conf"] = pki.kubeconfig(etc / "pki", identity, server, CONTEXT)
    for name, text in texts.items():
        (etc / name).write_text(text)
