"""Somebody who changes a child back each time is answered seldom; drift and changes of the spec at once."""

from sloserve_operator.contest import MOST_APPLIES, WINDOW_SECONDS, Contests

CHILD = ("uid", "Service chat")


def test_the_same_content_is_applied_a_few_times_a_minute_and_no_more() -> None:
    now = 0.0
    contests = Contests(lambda: now)
    for _ in range(MOST_APPLIES):
        assert contests.lost(CHILD, "a") == 0
        now += 1
    assert contests.lost(CHILD, "a") == WINDOW_SECONDS - MOST_APPLIES
    now = WINDOW_SECONDS
    assert contests.lost(CHILD, "a") == 0, "the first of them is a minute ago"
    assert contests.lost(CHILD, "a") > 0


def test_another_content_and_another_child_are_no_contest() -> None:
    contests = Contests(lambda: 0.0)
    for turn in range(10 * MOST_APPLIES):
        assert contests.lost(CHILD, str(turn)) == 0
        assert contests.lost(("uid", f"Service {turn}"), "a") == 0


def test_what_is_gone_is_forgotten() -> None:
    contests = Contests(lambda: 0.0)
    for _ in range(MOST_APPLIES):
        contests.lost(CHILD, "a")
    contests.forget("uid")
    assert contests.lost(CHILD, "a") == 0


def test_each_pause_is_told_once() -> None:
    now = 0.0
    contests = Contests(lambda: now)
    for _ in range(MOST_APPLIES):
        contests.lost(CHILD, "a")
        now += 1
    for news in (True, False, False):
        assert contests.lost(CHILD, "a") > 0
        assert contests.news(CHILD) is news
    now = WINDOW_SECONDS
    assert contests.lost(CHILD, "a") == 0
    assert contests.lost(CHILD, "a") > 0
    assert contests.news(CHILD)
