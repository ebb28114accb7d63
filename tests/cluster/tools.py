"""The binaries that the cluster and the chart tests need, built from Go modules and kept by content.

One table says what there is; `path("helm")` builds it if it is not in the cache. `python -m tests.cluster
tools` does the same by hand. All are static and share one set of flags: another set would compile everything
anew.
"""

import functools
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import cache, compile, golang
from tests.cluster.cache import ClusterError

KUBERNETES = "v1.34.3"
HERE = Path(__file__).parent
APPLETS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")

OWN = {
    "kubectl": (("version", "--client"), (1, 33), (1, 35)),
    "helm": (("version", "--short"), (3, 17), (4, 99)),
}
"""Programs of the machine's that may serve instead: how to ask for the version; oldest and newest that do.

kubectl may be one minor version from the cluster's; Helm 3.17 is the first with --take-ownership.
"""


@dataclass(frozen=True)
class Tool:
    """One row: `package` of `module` at `version`, made the way `how` says.

    how: "source" builds a program of this directory; "install" is `go install package@version`; "require"
    builds from a module of ours that requires it (its own go.mod has `replace`, which `go install` refuses);
    "copy" builds in a copy of its module (so that its `replace` holds).
    """

    name: str
    module: str
    version: str
    how: str
    package: str = ""
    tags: str = ""
    stamps: dict[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def _kubernetes_stamps() -> dict[str, str]:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{key}": value for package in packages for key, value in values.items()}


_OPERATOR = "github.com/prometheus-operator/prometheus-operator"
_OPERATOR_PARTS = (f"{_OPERATOR}/pkg/apis/monitoring", f"{_OPERATOR}/pkg/client")
_PROMETHEUS = "github.com/prometheus/prometheus"
_ONLY_KUBERNETES = "remove_all_sd,enable_kubernetes_sd"

TABLE = {
    tool.name: tool
    for tool in (
        Tool(
            "kc", "k8s.io/kubernetes", KUBERNETES, "source", "kc", stamps=_kubernetes_stamps(), links=APPLETS
        ),
        Tool("pause", "slidingserve.dev/tests/cluster/pause", "1", "source", "pause"),
        Tool("probe", "slidingserve.dev/tests/cluster/probe", "1", "source", "probe"),
        Tool("standin", "slidingserve.dev/tests/cluster/standin", "1", "source", "standin"),
        Tool("coredns", "github.com/coredns/coredns", "v1.15.0", "install"),
        Tool(
            "helm", "helm.sh/helm/v3", "v3.22.0", "install", "cmd/helm",
            stamps={"helm.sh/helm/v3/internal/version.version": "v3.22.0"},
        ),
        # "require" because `go install` would call it helm as well.
        Tool(
            "helm4", "helm.sh/helm/v4", "v4.3.2", "require", "cmd/helm",
            stamps={"helm.sh/helm/v4/internal/version.version": "v4.3.2"},
        ),
        Tool("prometheus", _PROMETHEUS, "v0.316.0", "install", "cmd/prometheus", tags=_ONLY_KUBERNETES),
        Tool("promtool", _PROMETHEUS, "v0.316.0", "install", "cmd/promtool", tags=_ONLY_KUBERNETES),
        Tool("prometheus-operator", _OPERATOR, "v0.92.0", "require", "cmd/operator", also=_OPERATOR_PARTS),
        Tool(
            "prometheus-config-reloader", _OPERATOR, "v0.92.0", "require", "cmd/prometheus-config-reloader",
            also=_OPERATOR_PARTS,
        ),
        Tool("prometheus-adapter", "sigs.k8s.io/prometheus-adapter", "v0.12.0", "copy", "cmd/adapter"),
        Tool("kubeconform", "github.com/yannh/kubeconform", "v0.8.0", "install", "cmd/kubeconform"),
        Tool(
            "helm-unittest", "github.com/helm-unittest/helm-unittest", "v1.1.2", "copy", "cmd/helm-unittest"
        ),
    )
}  # fmt: skip


def path(name: str) -> Path:
    """The binary `name` (a row of the table, or an applet of kc such as kubectl), built if it is not there.

    Raises ClusterError if there is no such tool, no Go to be had, or the build fails (with its words).
    """
    row = _row(name)
    return cache.make("tools", row.name, _key(row), lambda work: _build(row, work)) / name


def at_hand(name: str) -> Path | None:
    """The binary `name` if it is in the cache; nothing is built or fetched."""
    row = _row(name)
    if not golang.at_hand():
        return None
    binary = cache.root() / "tools" / f"{row.name}-{_key(row)}" / name
    return binary if binary.exists() else None


@functools.cache
def own(name: str) -> Path | None:
    """This machine's own kubectl or helm, if it is recent enough for a cluster of ours."""
    program, (arguments, oldest, newest) = shutil.which(name), OWN[name]
    if program is None:
        return None
    said = subprocess.run([program, *arguments], capture_output=True, text=True, check=False).stdout
    numbers = re.search(r"v(\d+)\.(\d+)", said)
    recent = numbers is not None and oldest <= (int(numbers[1]), int(numbers[2])) <= newest
    return Path(program) if recent else None


def _row(name: str) -> Tool:
    row = TABLE["kc"] if name in APPLETS else TABLE.get(name)
    if row is None:
        raise ClusterError(f"no tool is called {name!r}; there are: {', '.join([*TABLE, *APPLETS])}")
    return row


def _key(row: Tool) -> str:
    return cache.digest(repr(row), golang.version(), *([HERE / row.package] if row.how == "source" else []))


def module_dir(name: str) -> Path:
    """The unpacked module of a tool: its sources, CRDs and examples. Read-only."""
    return source(TABLE[name].module, TABLE[name].version)


def source(module: str, version: str) -> Path:
    """The unpacked Go module, fetched if it is not there. Read-only."""
    command = [golang.command(), "mod", "download", "-json", f"{module}@{version}"]
    answer = subprocess.run(command, env=compile.environment(), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ClusterError(f"go mod download {module}@{version} failed: {answer.stderr or answer.stdout}")
    return Path(json.loads(answer.stdout)["Dir"])


def _build(tool: Tool, work: Path) -> None:
    """Build `tool` into the directory `work` under its own name."""
    package = f"{tool.module}/{tool.package}".rstrip("/")
    binary, source = work / tool.name, work / "source"
    environment = compile.environment()
    verb, flags, target = ["build", "-o", str(binary)], _flags(tool), package
    match tool.how:
        case "source":
            source, target = HERE / tool.package, "."
            flags.append("-mod=readonly")
        case "install":
            environment["GOBIN"] = str(work)
            _module(source, tool)
            verb, target = ["install"], f"{package}@{tool.version}"
        case "require":
            _module(source, tool)
            flags.append("-mod=mod")
        case "copy":
            shutil.copytree(module_dir(tool.name), source, copy_function=shutil.copyfile)
            for directory in [source, *(path for path in source.rglob("*") if path.is_dir())]:
                directory.chmod(0o755)
            target = f"./{tool.package}"
        case _:
            raise ClusterError(
                f"tool {tool.name}: how={tool.how!r} is none of source, install, require, copy"
            )
    # `go list` takes no package@version: what that one needs is asked of a module that requires it.
    asked = ([package], [*flags, "-mod=mod"]) if tool.how == "install" else ([target], flags)
    total = compile.stale(*asked, source, environment)
    stamps = " ".join(f"-X {key}={value}" for key, value in tool.stamps.items())
    command = [golang.command(), *verb, "-v", *flags, "-ldflags", f"-s -w {stamps}".strip(), target]
    compile.run(f"build {tool.name} {tool.version}", command, source, environment, work / "log", total)
    if source.parent == work:
        shutil.rmtree(source)
    for link in tool.links:
        (work / link).symlink_to(tool.name)


def _flags(tool: Tool) -> list[str]:
    """One set for all tools. Nothing is inlined (-l): it takes a third off the time of a build."""
    return ["-trimpath", "-gcflags=all=-l", *(["-tags", tool.tags] if tool.tags else [])]


def _module(source: Path, tool: Tool) -> None:
    """A module of ours that requires the tool's."""
    source.mkdir()
    required = "".join(f"require {module} {tool.version}\n" for module in (tool.module, *tool.also))
    (source / "go.mod").write_text(f"module slidingserve.dev/tools\n\ngo 1.26.0\n\n{required}")
