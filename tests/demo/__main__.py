"""`python -m tests.demo [up|down]`: the demo by hand; `make demo` and `make demo-down` call it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from slidingserve.bench import report

from tests.cluster import api, cache, clean
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError
from tests.demo import install, leftovers, prepare, summary
from tests.demo.compare import DemoError, compare
from tests.demo.engine import Engine
from tests.demo.kube import Kube, load
from tests.demo.load import BLOCKS, OURS, Load
from tests.demo.progress import Line
from tests.demo.summary import Row

SUMMARY = install.ROOT / "build" / "demo" / "summary.json"
NAMESPACE = "sloserve-demo"

FURTHER = """\
eval "$(.venv/bin/python -m tests.cluster kubeconfig)"    # kubectl and helm, pointed at this cluster
kubectl -n {namespace} patch slos {name} --type=merge -p '{{"spec": {{"scheduler": {{"alpha": 0.4}}}}}}'
kubectl -n {namespace} get slos {name} -o jsonpath='{{.status.pods}}'    # in force within seconds
kubectl -n {namespace} port-forward service/{name} 8000    # then, beside it:
curl -s localhost:8000/slidingserve/v1/state
curl -s localhost:8000/metrics | grep ^slidingserve_
.venv/bin/python -m tests.cluster.monitoring install    # a real Prometheus; next, let it scrape the engine:
helm upgrade sloserve charts/sloserve -n sloserve-system --reset-then-reuse-values \\
  --set monitoring.podMonitor.enabled=true
.venv/bin/python -m tests.cluster.monitoring query \\
  'sum by (slo_class) (increase(slidingserve_slo_violations_total{{objective="request"}}[5m]))'
make demo-down    # take everything away
"""

console = Console(highlight=False, soft_wrap=True)


@contextmanager
def step(number: int, what: str) -> Iterator[None]:
    """Say what begins and how long it took."""
    began = time.monotonic()
    console.print(f"[bold]==> {number}/6 {what}[/]")
    yield
    console.print(f"    [dim]done in {time.monotonic() - began:.0f} s[/]")


def up() -> None:
    """Every step from nothing to the table; each is safe to repeat."""
    cluster = api.get()
    _announce(cluster)
    resource = load(install.EXAMPLE)[0]
    name = resource["metadata"]["name"]
    kube = Kube(cluster, NAMESPACE)
    with step(1, "programs and images, built side by side where they are not here yet"):
        prepare.prepare(cluster)
    with step(2, f"cluster ({cluster.kind}), and the operator in it by its Helm chart"):
        cluster.up(dns=False)
        install.install_chart(cluster)
    with step(3, f"kubectl apply -f {install.EXAMPLE.relative_to(install.ROOT)}"):
        kube.ensure_namespace()
        kube.run("apply", "-f", str(install.EXAMPLE))
        install.wait_ready(kube, name, lambda line: console.print(f"    {line}"))
        console.print(kube.run("get", "sloserve"), end="", markup=False)
    engine = Engine(kube.service_url(name))
    with step(4, "the same requests under both policies, switched live (no restart)"):
        rows = _compare(kube, name, engine)
    with step(5, "result"):
        _show(rows, resource)
    with step(6, "what is running, and how to look further"):
        console.print(kube.run("get", "sloserve", "-o", "wide"), end="", markup=False)
        _further(cluster, name)


def _announce(cluster: Cluster) -> None:
    where = {
        "local": "a one-node Kubernetes on this machine (needs root: it makes namespaces, mounts, cgroups)",
        "kind": "a kind cluster in Docker",
        "current": "the Kubernetes context that you named",
    }[cluster.kind]
    console.print(
        f"SlidingServe demo. It uses {where},\n"
        f"builds tools and images once into {cache.root()}, installs missing\n"
        "Debian packages with apt, and puts an operator and one CPU engine into the cluster. `make doctor`\n"
        "says what that is and how long it takes. No GPU is used or needed. Safe to run again;\n"
        "`make demo-down` takes it away. Two shared cores make this a demonstration, not a benchmark."
    )


def _compare(kube: Kube, name: str, engine: Engine) -> list[Row]:
    """The blocks; every switch is a live patch, and the pod must still be the same at the end."""
    before = _restarts(kube, name)

    def switch(policy: str) -> None:
        kube.patch(name, {"scheduler": {"policy": policy}})
        engine.wait_policy(policy)

    def line(number: int, policy: str, load: Load) -> Line:
        return Line(console, f"block {number}/{len(BLOCKS)} {policy}", load)

    try:
        rows = compare(engine, BLOCKS, switch, line)
    finally:
        switch(OURS)
    if _restarts(kube, name) != before:
        raise DemoError("the engine's pod was replaced or restarted during the comparison")
    console.print("    the policy was switched four times; the pod is the same and never restarted")
    return rows


def _restarts(kube: Kube, name: str) -> list[tuple[str, int]]:
    return [
        (pod["metadata"]["uid"], sum(c["restartCount"] for c in pod["status"]["containerStatuses"]))
        for pod in kube.pods(name)
    ]


def _show(rows: list[Row], resource: dict[str, object]) -> None:
    report.write(SUMMARY, summary.document(rows))
    console.print(summary.promises(resource), markup=False)
    console.print(summary.table(rows))
    console.print(summary.verdict(rows))
    console.print(f"written: {SUMMARY.relative_to(install.ROOT)}", markup=False)


def _further(cluster: Cluster, name: str) -> None:
    text = FURTHER.format(namespace=NAMESPACE, name=name)
    for line in text.splitlines()[0 if cluster.kind == "local" else 1 :]:
        console.print(f"    {line}", markup=False)


def down() -> None:
    """Take the demo away and look whether anything is left."""
    cluster = api.get()
    if cluster.kind == "current":
        cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
        install.uninstall_chart(cluster)
    cluster.down()
    found = leftovers.look(cluster)
    if found:
        raise DemoError("left behind:\n  " + "\n  ".join(found))
    console.print("Nothing of it runs any more: " + leftovers.LOOKED_FOR)
    if stays := clean.stays():
        console.print(
            "What stays makes the next `make demo` short; `make clean-all` removes it:", markup=False
        )
        for line in stays:
            console.print(f"  {line}", markup=False)


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0 done, 1 failed with a line, 130 stopped by Ctrl-C."""
    command = arguments[0] if arguments else "up"
    if command not in ("up", "down") or len(arguments) > 1:
        console.print("usage: python -m tests.demo [up|down]", markup=False)
        return 2
    try:
        up() if command == "up" else down()
    except KeyboardInterrupt:
        console.print("\nStopped. The cluster, the operator and the engine may still be running:")
        console.print("`make demo` goes on where it stopped, `make demo-down` takes everything away.")
        return 130
    except (ClusterError, DemoError, TimeoutError, ConnectionError, LookupError) as error:
        console.print(f"demo failed: {error}", style="red", markup=False)
        console.print("What is there stays for a look; `make demo` tries again, `make demo-down` removes it.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
