"""The images themselves: who they run as, what they hold, what a change costs. Built where absent."""

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import cache, images, images_build
from tests.images.container import Container, blob, configuration, container, manifest, stored_name

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(2400)]
MEGABYTE = 1 << 20
LEFT_BY_A_BUILD = (
    "etc/pip.conf",
    "etc/uv",
    "root/.cache",
    "root/.config",
    "var/cache/apt/",
    "opt/uv",
)


@pytest.fixture(scope="module")
def engine() -> images.Built:
    return images.build("engine-cpu")


@pytest.fixture(scope="module")
def operator() -> images.Built:
    return images.build("operator")


@pytest.fixture(scope="module")
def running_engine(engine: images.Built) -> Iterator[Container]:
    with container(engine) as found:
        yield found


@pytest.fixture(scope="module")
def running_operator(operator: images.Built) -> Iterator[Container]:
    with container(operator) as found:
        yield found


def test_both_run_as_user_1000_and_cannot_write_their_root(
    running_engine: Container, running_operator: Container
) -> None:
    for found in (running_engine, running_operator):
        assert found.run("id", "-u").stdout.strip() == "1000"
        assert "Read-only file system" in found.run("touch", "/probe").stderr
        assert found.run("touch", "/tmp/probe").returncode == 0


def test_both_run_as_a_user_of_the_clusters_choice_that_has_no_name(
    engine: images.Built, operator: images.Built
) -> None:
    """As OpenShift runs them: any uid, group 0, unknown to /etc/passwd."""
    home = "import getpass, os; os.makedirs(os.path.expanduser('~/x')); print(os.getuid(), getpass.getuser())"
    imported = {"engine": "slidingserve.cli, vllm", "operator": "sloserve_operator.app"}
    for name, built in (("engine", engine), ("operator", operator)):
        with container(built, "1000971234:0") as found:
            shown = found.run("python", "-c", home)
            assert shown.stdout.startswith("1000971234 s"), shown.stderr
            shown = found.run("python", "-c", f"import {imported[name]}; print('there')")
            assert shown.stdout.endswith("there\n"), shown.stderr


def test_the_engine_starts_on_a_read_only_root(running_engine: Container) -> None:
    shown = running_engine.run("slidingserve", "serve", "--help")
    assert shown.returncode == 0, shown.stderr
    script = "import torch, vllm; print(vllm.__version__, torch.cuda.is_available(), torch.ones(2).sum())"
    imported = running_engine.run("python", "-c", script)
    assert imported.stdout.strip() == "0.32.0 False tensor(2.)", imported.stderr
    read = "import glob; print(sum(open(f, 'rb').read(1) != b'' for f in glob.glob('/models/demo/*')))"
    assert running_engine.run("python", "-c", read).stdout.strip() == "5"


def test_the_engine_is_a_plug_in_of_vllm(running_engine: Container) -> None:
    script = (
        "from importlib.metadata import entry_points\n"
        "for group in ('vllm.general_plugins', 'vllm.endpoint_plugins'):\n"
        "    print(*(e.name for e in entry_points(group=group) if 'slidingserve' in e.value))"
    )
    shown = running_engine.run("python", "-c", script).stdout
    assert shown.split() == ["slidingserve", "slidingserve_routes"]


def test_the_operator_starts_on_a_read_only_root(running_operator: Container) -> None:
    imported = running_operator.run("python", "-c", "import sloserve_operator.app as app; print(app.main)")
    assert imported.stdout.startswith("<function main"), imported.stderr
    assert running_operator.run("sh", "-c", "command -v sloserve-operator").returncode == 0


def test_the_images_are_no_larger_than_promised(engine: images.Built, operator: images.Built) -> None:
    sizes = [sum(row["size"] for row in manifest(built.layout)["layers"]) for built in (engine, operator)]
    assert sizes[0] < 2500 * MEGABYTE
    assert sizes[1] < 400 * MEGABYTE


def test_nothing_of_the_build_or_its_host_is_in_a_layer(engine: images.Built, operator: images.Built) -> None:
    for built in (engine, operator):
        base, *own = manifest(built.layout)["layers"]
        assert "etc/resolv.conf" not in sized_files(blob(built.layout, base["digest"]))
        for row in own:
            files = sized_files(blob(built.layout, row["digest"]))
            assert [name for name in files if name.startswith(LEFT_BY_A_BUILD)] == []
            assert "etc/ssl/certs/ca-certificates.crt" not in files


def test_the_configuration_holds_no_address(engine: images.Built, operator: images.Built) -> None:
    for built in (engine, operator):
        assert [value for value in configuration(built.layout)["Env"] if "://" in value] == []
        assert configuration(built.layout)["User"] == "1000:1000"


def test_secrets_reach_a_build_step_and_no_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.invalid/simple")
    builder, name = images_build.choose(), f"{images.REPOSITORY}/secret-probe:test"
    (tmp_path / "Dockerfile").write_text(
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\n"
        "RUN --mount=type=secret,id=uv.toml,target=/etc/uv/uv.toml sha256sum < /etc/uv/uv.toml > /seen\n"
    )
    base = {"BASE_IMAGE": stored_name(images.build("operator"))}
    with beside("secret-probe") as layout:
        builder.build(tmp_path, "Dockerfile", name, base, layout)
        top = manifest(layout)["layers"][-1]
        files = sized_files(blob(layout, top["digest"]))
        assert "seen" in files
        assert [file for file in files if "uv.toml" in file] == []
        assert b"index.invalid" not in blob(layout, manifest(layout)["config"]["digest"]).read_bytes()
    builder.forget(name)


def test_a_code_change_writes_only_the_top_layer(engine: images.Built, tmp_path: Path) -> None:
    context, builder = tmp_path / "engine-image", images_build.choose()
    shutil.copytree(images.TABLE["engine-cpu"].context, context)
    with (context / "slidingserve/__init__.py").open("a") as opened:
        opened.write("CHANGED = True\n")
    name = f"{images.REPOSITORY}/engine-cpu:changed"
    with beside("changed") as layout:
        builder.build(context, "Dockerfile.cpu", name, base_arguments(builder), layout)
        before, after = manifest(engine.layout)["layers"], manifest(layout)["layers"]
        assert after[:-1] == before[:-1]
        assert after[-1]["digest"] != before[-1]["digest"]
        assert after[-1]["size"] < 5 * MEGABYTE
    builder.forget(name)


def test_every_step_of_the_gpu_image_runs_and_leaves_its_base_as_it_is(
    engine: images.Built, tmp_path: Path
) -> None:
    """The base here is our CPU image with pip and without our package: that a GPU is driven is not shown."""
    builder = images_build.choose()
    base, name = f"{images.REPOSITORY}/gpu-base:test", f"{images.REPOSITORY}/engine:test"
    (tmp_path / "Dockerfile").write_text(
        f"FROM {stored_name(engine)}\nUSER root\n"
        "RUN python3 -m ensurepip && python3 -m pip uninstall -q -y slidingserve watchfiles\n"
    )
    builder.run("build", *builder.build_options, "-t", base, str(tmp_path))
    with beside("gpu") as layout:
        gpu = images.TABLE["engine"]
        builder.build(gpu.context, gpu.dockerfile, name, {"BASE_IMAGE": base}, layout)
        found = configuration(layout)
        assert (found["User"], found["Entrypoint"]) == ("1000:1000", ["slidingserve"])
        files = sized_files(blob(layout, manifest(layout)["layers"][-1]["digest"]))
        packages = [file.partition("site-packages/")[2] for file in files]
        installed = {package.split("/")[0] for package in packages if package}
        lines = (gpu.context / "constraints.txt").read_text().split()
        pin = next(line for line in lines if line.startswith("watchfiles=="))
        assert installed == {
            "slidingserve", "slidingserve-0.1.0.dist-info",
            "watchfiles", f"{pin.replace('==', '-')}.dist-info",
        }  # fmt: skip
    builder.forget(name)
    builder.forget(base)


@contextmanager
def beside(name: str) -> Iterator[Path]:
    """An empty layout directory beside the kept ones, to share their blobs; deleted at the end."""
    layout = cache.root() / "images" / f"test-{name}-{os.getpid()}"
    layout.mkdir(parents=True)
    try:
        yield layout
    finally:
        images_build.remove(layout)


def base_arguments(builder: images_build.Builder) -> dict[str, str]:
    """The build arguments that `images.build` gives by default."""
    base = os.environ.get("SLIDINGSERVE_BASE_IMAGE") or images.default_base(builder)
    return {"BASE_IMAGE": base} if base else {}


def sized_files(layer: Path) -> set[str]:
    """The files of a layer that hold something, without a leading slash or dot."""
    with tarfile.open(layer) as archive:
        return {member.name.removeprefix("./") for member in archive if member.isfile() and member.size}
