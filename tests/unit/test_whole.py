"""A result file is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from slidingserve.whole import whole


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_file_that_could_not_be_written_to_its_end_is_as_it_was(
    error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_text("the old one")

    def broken_off() -> None:
        with whole(path) as place:
            place.write_text("half of")
            raise error

    with pytest.raises(error):
        broken_off()
    assert path.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_may_be_new_long_in_its_name_a_link_or_a_device(tmp_path: Path) -> None:
    new, link = tmp_path / ("n" * 255), tmp_path / "link"
    link.symlink_to(new)
    for path in (new, link, Path("/dev/null")):
        with whole(path) as place:
            place.write_text(path.name[:4])
    assert new.read_text() == "link"
    assert link.is_symlink()
    assert not Path("/dev/null").is_file()
