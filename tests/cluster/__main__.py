"""The cluster by hand: `python -m tests.cluster up | down | status | kubeconfig | tools | load-image`."""

import argparse
import sys
from pathlib import Path

from tests.cluster import api, tools
from tests.cluster.cache import ClusterError
from tests.cluster.local import LocalCluster

_ABOUT = """\
A real one-node Kubernetes for the tests and the demo.

  CLUSTER=local    this machine, no container engine; root needed (default without Docker or kind)
                   CLUSTER_NUMBER=1 to 9: another one beside it, such as for a second checkout
  CLUSTER=kind     kind on Docker (default where both are there)
  CLUSTER=current  the context that kubectl uses now; SLIDINGSERVE_CONTEXT must name it, or you are asked

  eval "$(python -m tests.cluster kubeconfig)"    then kubectl and helm talk to it; helm is yours, or ours
                                                  once built (by `make demo`, or `tools helm`)
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="bring the cluster up; harmless if it is up")
    down = commands.add_parser("down", help="leave nothing behind; harmless if it is down")
    down.add_argument(
        "--drop-images", action="store_true", help="also drop loaded images (kept for the next up)"
    )
    commands.add_parser("status", help="what runs; exit code 1 if the cluster does not answer")
    commands.add_parser("kubeconfig", help="print the shell lines that point kubectl and helm at it")
    build = commands.add_parser("tools", help="build tools that are not in the cache, and print their paths")
    build.add_argument("names", nargs="*", metavar="NAME", help=f"default all: {', '.join(tools.TABLE)}")
    load = commands.add_parser("load-image", help="load the image of an OCI layout directory")
    load.add_argument("layout", type=Path)
    load.add_argument("name", help="such as localhost/slidingserve/engine-cpu:dev")
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.command == "tools":
        for name in options.names or tools.TABLE:
            print(tools.path(name))
        return
    cluster = api.get()
    match options.command:
        case "up":
            cluster.up()
        case "down":
            cluster.down(drop_images=options.drop_images)
        case "load-image":
            cluster.load_image(options.layout, options.name)
        case "kubeconfig":
            programs = [cluster.kubectl_program(), tools.at_hand("helm")]
            path = ":".join(str(program.parent) for program in programs if program)
            print(f"export KUBECONFIG={cluster.kubeconfig}\nexport PATH={path}:$PATH")
        case "status":
            if isinstance(cluster, LocalCluster):
                for name, state in cluster.status().items():
                    print(f"{name:26}{state}")
            if not cluster.is_up():
                raise ClusterError(f"the {cluster.kind} cluster does not answer; python -m tests.cluster up")
            print(cluster.kubectl("get", "nodes,pods", "-A", "-o", "wide"), end="")


if __name__ == "__main__":
    sys.exit(main())
