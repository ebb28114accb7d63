"""How each component runs in the node: command lines and configuration files. Pure, but for `write`.

All paths are the node's own (`/var/lib`, `/var/log` and `/run` there are not the host's, see node.py), so
nothing here depends on where the cache lies. Configuration is written as JSON, which every reader of YAML
takes.
"""

import json
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from tests.cluster import cache, pki

NODE = "node1"
API_PORT = 6443
CONTEXT = "slidingserve-local"
PAUSE_IMAGE = "localhost/slidingserve/pause:1"
COREDNS_IMAGE = "localhost/slidingserve/coredns:v1.15.0"
FAKE_GPUS = 8


@dataclass(frozen=True)
class Place:
    """What a local cluster takes on its host: a name (of its link and cgroup) and addresses.

    Two clusters in different places do not meet; the tests of `up` and `down` use one beside the user's.
    """

    name: str = "slidingserve"
    host_address: str = "10.243.0.1"
    node_address: str = "10.243.0.2"
    pods: str = "10.244.0.0/24"
    services: str = "10.96.0.0/16"

    @property
    def link(self) -> str:
        """The host's end of the veth pair."""
        return f"{self.name}0"

    @property
    def networks(self) -> tuple[str, str, str]:
        """All that the host routes to the node: link, pods, Services."""
        return f"{self.host_address}/30", self.pods, self.services

    def service(self, index: int) -> str:
        """The address of a Service: 1 is the API server's, 10 is DNS."""
        return str(ip_network(self.services)[index])

    @property
    def dns(self) -> str:
        """The address of the cluster's DNS."""
        return self.service(10)


def numbered(number: int) -> Place:
    """Place 0 is the usual one; 1 to 9 lie beside it and beside each other."""
    if not number:
        return Place()
    link = f"10.243.{number}"
    name = f"slidingserve{number}"
    return Place(name, f"{link}.1", f"{link}.2", f"10.244.{number}.0/24", f"10.{100 + number}.0.0/16")


MANIFESTS = Path(__file__).parent / "manifests"
ETC = "/var/lib/kubernetes"
BIN = f"{ETC}/bin"
PKI = f"{ETC}/pki"
AUDIT_LOG = "/var/log/audit.log"
CONTAINERD = "/run/containerd/containerd.sock"
IDENTITIES = [
    pki.ADMIN, pki.CONTROLLER_MANAGER, pki.SCHEDULER, pki.PROXY, pki.KUBELET_CLIENT, pki.FRONT_PROXY,
    pki.kubelet(NODE),
]  # fmt: skip


@dataclass(frozen=True)
class Component:
    """One long-running program of the node."""

    name: str
    command: tuple[str, ...]


def components(place: Place) -> dict[str, Component]:
    """Every program of the node by name, in the order in which they start."""
    commands = {
        "etcd": ["etcd", *_flags(_ETCD)],
        "kube-apiserver": [f"{BIN}/kube-apiserver", *_flags(_api_server(place))],
        "containerd": ["containerd", "--config", f"{ETC}/containerd.toml"],
        "kube-controller-manager": [f"{BIN}/kube-controller-manager", *_flags(_controller_manager(place))],
        "kube-scheduler": [f"{BIN}/kube-scheduler", *_flags(_SCHEDULER)],
        "kube-proxy": [f"{BIN}/kube-proxy", f"--config={ETC}/kube-proxy.json"],
        "kubelet": [f"{BIN}/kubelet", *_flags(_kubelet(place))],
    }
    return {name: Component(name, tuple(command)) for name, command in commands.items()}


def _flags(values: dict[str, Any]) -> list[str]:
    return [
        f"--{key}={json.dumps(value) if isinstance(value, bool) else value}" for key, value in values.items()
    ]


_ETCD = {
    "data-dir": "/var/lib/etcd",
    "listen-client-urls": "http://127.0.0.1:2379",
    "advertise-client-urls": "http://127.0.0.1:2379",
    "listen-peer-urls": "http://127.0.0.1:2380",
    "unsafe-no-fsync": True,  # its data need not survive the machine
}
_SCHEDULER = {
    "kubeconfig": f"{ETC}/{pki.SCHEDULER.file}.conf",
    "bind-address": "127.0.0.1",
    "leader-elect": False,
}


def _api_server(place: Place) -> dict[str, Any]:
    return {
        "etcd-servers": "http://127.0.0.1:2379",
        "advertise-address": place.node_address,
        "secure-port": API_PORT,
        "service-cluster-ip-range": place.services,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": True,
        "client-ca-file": f"{PKI}/ca.crt",
        "tls-cert-file": f"{PKI}/apiserver.crt",
        "tls-private-key-file": f"{PKI}/apiserver.key",
        "kubelet-client-certificate": f"{PKI}/{pki.KUBELET_CLIENT.file}.crt",
        "kubelet-client-key": f"{PKI}/{pki.KUBELET_CLIENT.file}.key",
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": f"{PKI}/ca.crt",
        "requestheader-allowed-names": pki.FRONT_PROXY.user,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "enable-aggregator-routing": True,  # to pods: the node has no route to a Service's address
        "proxy-client-cert-file": f"{PKI}/{pki.FRONT_PROXY.file}.crt",
        "proxy-client-key-file": f"{PKI}/{pki.FRONT_PROXY.file}.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": f"{PKI}/service-account.pub",
        "service-account-signing-key-file": f"{PKI}/service-account.key",
        "audit-policy-file": f"{ETC}/audit-policy.yaml",
        "audit-log-path": AUDIT_LOG,
        "audit-log-mode": "blocking",  # an entry is on disk before its request is answered: tests rely on it
        "audit-log-maxsize": 512,
        "audit-log-maxbackup": 1,
    }


def _controller_manager(place: Place) -> dict[str, Any]:
    return {
        "kubeconfig": f"{ETC}/{pki.CONTROLLER_MANAGER.file}.conf",
        "bind-address": "127.0.0.1",
        "leader-elect": False,
        "use-service-account-credentials": True,
        "root-ca-file": f"{PKI}/ca.crt",
        "service-account-private-key-file": f"{PKI}/service-account.key",
        "allocate-node-cidrs": True,
        "cluster-cidr": place.pods,
        "horizontal-pod-autoscaler-sync-period": "2s",  # of 15: tests wait for it
    }


def _kubelet(place: Place) -> dict[str, Any]:
    return {
        "config": f"{ETC}/kubelet.json",
        "kubeconfig": f"{ETC}/kubelet.conf",
        "hostname-override": NODE,
        "node-ip": place.node_address,
    }


def _kubelet_configuration(place: Place) -> dict[str, Any]:
    return {
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
        "cgroupRoot": f"/{place.name}",
        "failSwapOn": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [place.dns],
        "resolvConf": f"{ETC}/resolv.conf",  # empty: the host's search domains stay out of the pods
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
    }


def _proxy_configuration(place: Place) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{ETC}/{pki.PROXY.file}.conf"},
        "clusterCIDR": place.pods,
        "mode": "iptables",
        "hostnameOverride": NODE,
        "conntrack": {"maxPerCore": 0},  # the table's size belongs to the host
    }


def _pod_network(place: Place) -> dict[str, Any]:
    """Packets between pods are routed through the node (ptp, not bridge): Services need no br_netfilter."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam",
        "ranges": [[{"subnet": place.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}


# restrict_oom_score_adj: without CAP_SYS_RESOURCE (as in many containers) a score cannot be lowered.
_CONTAINERD = f"""\
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


def write(etc: Path, place: Place) -> None:
    """Write certificates and all configuration to `etc` (the host's view of ETC)."""
    pki.create(etc / "pki", _server_names(place), IDENTITIES)
    (etc / "cni").mkdir(parents=True, exist_ok=True)
    texts = {
        "kubelet.json": json.dumps(_kubelet_configuration(place), indent=2),
        "kube-proxy.json": json.dumps(_proxy_configuration(place), indent=2),
        "cni/10-pods.conflist": json.dumps(_pod_network(place), indent=2),
        "containerd.toml": _CONTAINERD,
        "resolv.conf": "",
        "audit-policy.yaml": (MANIFESTS / "audit-policy.yaml").read_text(),
    }
    for identity in IDENTITIES:
        server = f"https://127.0.0.1:{API_PORT}"
        texts[f"{identity.file}.conf"] = pki.kubeconfig(etc / "pki", identity, server, CONTEXT)
    for name, text in texts.items():
        (etc / name).write_text(text)


def base_objects(place: Place, *, dns: bool) -> str:
    """The manifests of every cluster: the API server's right to logs and exec and, if asked, DNS."""
    text = (MANIFESTS / "base.yaml").read_text()
    if not dns:
        return text
    server = (MANIFESTS / "dns.yaml").read_text().replace("CLUSTER_DNS", place.dns)
    return f"{text}---\n{server.replace('CONFIG_DIGEST', cache.digest(server))}"


def _server_names(place: Place) -> list[str]:
    addresses = ("127.0.0.1", place.node_address, place.service(1))
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return [
        *(f"IP:{address}" for address in addresses),
        *(f"DNS:{name}" for name in (*names, "kubernetes.default.svc.cluster.local")),
    ]
