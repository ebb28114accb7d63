"""What an installation must not leave enabled, the record of packages, and what `clean-all` takes and leaves.

Packages and services are those of a file tree of the test's own, behind stand-ins for apt and dpkg.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster import boot, clean, debian, installed
from tests.cluster.cache import ClusterError

APT_GET = """\
#!/bin/sh
echo "$*" >>"$FAKE/calls"
case "$*" in
*" install "*|"install "*)
    echo etcd-server >>"$FAKE/status"; echo its-library >>"$FAKE/status"
    mkdir -p "$FAKE/lib/systemd/system" "$FAKE/etc/systemd/system/multi-user.target.wants" "$FAKE/etc/rc3.d"
    printf '[Install]\\nWantedBy=multi-user.target\\n' >"$FAKE/lib/systemd/system/etcd.service"
    ln -sf /lib/systemd/system/etcd.service "$FAKE/etc/systemd/system/multi-user.target.wants/etcd.service"
    ln -sf ../init.d/etcd "$FAKE/etc/rc3.d/S01etcd"
    test -z "$BREAKS" || exit 1 ;;
"-s remove "*)
    shift 2
    for name; do echo "Remv $name [1]"; done
    cat "$FAKE/more" ;;
"purge "*) for name; do sed -i "/^$name\\$/d" "$FAKE/status"; done ;;
esac
"""
DPKG_QUERY = """\
#!/bin/sh
while read -r name; do printf 'ii \\t%s\\t1000\\n' "$name"; done <"$FAKE/status"
"""
DPKG = """\
#!/bin/sh
test "$2" != etcd-server || echo /lib/systemd/system/etcd.service
"""
WANTS = "etc/systemd/system/multi-user.target.wants"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file tree with `other.service` enabled and `bash` installed, and an apt that adds etcd to it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apt-get", APT_GET), ("dpkg-query", DPKG_QUERY), ("dpkg", DPKG)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / WANTS).mkdir(parents=True)
    (tmp_path / WANTS / "other.service").symlink_to("/lib/systemd/system/other.service")
    (tmp_path / "status").write_text("bash\n")
    (tmp_path / "more").touch()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("BREAKS", "")
    monkeypatch.setattr(boot, "ROOT", tmp_path)
    monkeypatch.setattr(debian, "_SERVICES_STAY_DOWN", tmp_path / "policy-rc.d")
    monkeypatch.setattr(installed, "RECORD", tmp_path / "record" / "packages.json")
    monkeypatch.setattr(debian, "present", lambda program: False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def enabled() -> list[str]:
    return boot.names(boot.enabled())


def test_what_is_installed_starts_nothing_at_boot_and_is_recorded(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    debian.require(["etcd"])
    assert enabled() == ["other.service"]
    assert "not started at boot: etcd, etcd.service" in capsys.readouterr().out
    assert installed.recorded() == ["etcd-server", "its-library"]
    assert not (machine / "policy-rc.d").exists()


def test_an_installation_that_fails_half_way_leaves_nothing_enabled_and_is_recorded(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKS", "yes")
    with pytest.raises(ClusterError, match="apt-get install"):
        debian.require(["etcd"])
    assert enabled() == ["other.service"]
    assert installed.recorded() == ["etcd-server", "its-library"]


def test_what_was_enabled_before_stays_enabled(machine: Path) -> None:
    (machine / WANTS / "etcd.service").symlink_to("/lib/systemd/system/etcd.service")
    debian.require(["etcd"])
    assert enabled() == ["etcd.service", "other.service"]


def test_packages_go_that_were_installed_by_us_and_no_others(machine: Path) -> None:
    debian.require(["etcd"])
    assert clean._packages() == 2 * 1000 * 1024
    assert (machine / "status").read_text() == "bash\n"
    assert not (machine / "record").exists()
    assert clean._packages() == 0


def test_a_package_that_others_need_stays(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    debian.require(["etcd"])
    (machine / "more").write_text("Remv users-own-program [2]\n")
    assert clean._packages() == 0
    assert "other packages need it: users-own-program" in capsys.readouterr().out
    assert installed.recorded() == ["etcd-server", "its-library"]


def test_a_package_whose_service_was_enabled_since_stays(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    debian.require(["etcd"])
    (machine / WANTS / "etcd.service").symlink_to("/lib/systemd/system/etcd.service")
    clean._packages()
    assert "etcd-server: its service was enabled for boot since" in capsys.readouterr().out
    assert "etcd-server" in (machine / "status").read_text()


NAMES = st.sets(st.sampled_from(["etcd", "runc", "bash", "libc", "vim"]))


@given(NAMES, NAMES, NAMES, NAMES)
def test_nothing_is_ever_removed_that_was_not_installed_by_us(
    ours: set[str], present: set[str], served: set[str], also: set[str]
) -> None:
    going = (ours & present) - served
    removal = installed.plan(ours, present, served, "\n".join(f"Remv {name} [1]" for name in going | also))
    assert set(removal.remove) <= (ours & present) - served
    assert set(removal.remove) | set(removal.stay) == ours & present
    if also - (ours & present):
        assert removal.remove == ()


def test_a_record_that_is_none_is_refused_by_name(machine: Path) -> None:
    installed.RECORD.parent.mkdir()
    installed.RECORD.write_text("[]")
    with pytest.raises(ClusterError, match=r"packages\.json is not the harness's record"):
        installed.recorded()


def test_caches_are_named_with_their_sizes_and_others_files_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("tools/kc-1", "go/build/aa", "cluster-3/lib", "mine"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(b"x" * 3_000_000)
    found = clean.caches(tmp_path)
    assert [one.path.name for one in found] == ["tools", "build", "cluster-3"]
    assert sum(clean._remove(one) for one in found) >= 9_000_000
    clean._others(tmp_path)
    assert "3 MB" in (said := capsys.readouterr().out)
    assert f"stays  {tmp_path}/mine: not of this project's making" in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("place", [Path("/"), Path.home(), clean.ROOT, clean.ROOT.parent])
def test_a_cache_root_that_holds_more_than_caches_is_not_cleaned(place: Path) -> None:
    with pytest.raises(ClusterError, match="holds more than caches, so nothing is removed"):
        clean.refuse(place)


def test_what_the_harness_installed_on_this_machine_starts_nothing_at_boot() -> None:
    present = installed.there()
    assert [name for name in installed.recorded() if name in present and installed._serves(name)] == []


def test_clean_all_counts_a_clusters_images_and_leaves_nothing_of_ours(
    tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, checkout = tmp_path / "cache", tmp_path / "checkout"
    for place in (cache / "cluster" / "lib" / "containerd", cache / "tools" / "kc-1", checkout / ".venv"):
        place.mkdir(parents=True)
        (place / "file").write_bytes(b"x" * 3_000_000)
    monkeypatch.setenv("SLIDINGSERVE_CACHE", str(cache))
    monkeypatch.setattr(clean, "ROOT", checkout)
    monkeypatch.setattr(clean.environments, "__defaults__", (checkout,))
    debian.require(["etcd"])
    assert clean.main([]) == 0
    said = capsys.readouterr().out
    assert "3 MB" in next(line for line in said.splitlines() if line.endswith("certificates, logs)"))
    assert "freed 11 MB in all" in said
    assert not cache.exists()
    assert list(checkout.iterdir()) == []
    assert (machine / "status").read_text() == "bash\n"
