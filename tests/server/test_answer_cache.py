"""The cache of answers gives back what was put in, never holds more than it may, and drops the coldest first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capplan.server.answer_cache import ENTRY_OVERHEAD_BYTES, AnswerCache, AnswerKey


def key(text: str, revision: int = 1, method: str = "/m") -> AnswerKey:
    return AnswerKey(revision, method, text.encode())


def test_an_answer_is_found_by_revision_method_and_request_only() -> None:
    cache = AnswerCache(10_000)
    cache.put(key("a"), b"answer")
    assert cache.get(key("a")) == b"answer"
    assert cache.get(key("a", revision=2)) is None
    assert cache.get(key("a", method="/other")) is None
    assert cache.get(key("b")) is None


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    # Two entries of one byte of request, two of method and one of answer fit, a third does not.
    cache = AnswerCache(2 * (4 + ENTRY_OVERHEAD_BYTES) + 1)
    cache.put(key("a"), b"1")
    cache.put(key("b"), b"2")
    assert cache.get(key("a")) == b"1"
    cache.put(key("c"), b"3")
    assert cache.get(key("b")) is None
    assert cache.get(key("a")) == b"1"
    assert cache.get(key("c")) == b"3"


def test_an_answer_larger_than_the_cache_drops_nothing() -> None:
    cache = AnswerCache(1_000)
    cache.put(key("a"), b"1")
    cache.put(key("b"), b"x" * 5_000)
    assert cache.get(key("a")) == b"1"
    assert cache.get(key("b")) is None


def test_a_cache_without_room_holds_nothing() -> None:
    cache = AnswerCache(0)
    cache.put(key("a"), b"")
    assert len(cache) == cache.held_bytes == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.binary(max_size=600)), max_size=40), st.integers(0, 3_000))
def test_a_cache_holds_at_most_its_capacity_and_the_newest_answer_of_a_key(puts, capacity: int) -> None:
    cache = AnswerCache(capacity)
    newest: dict[str, bytes] = {}
    for name, answer in puts:
        cache.put(key(name), answer)
        newest[name] = answer
        assert cache.held_bytes <= capacity
        held = cache.get(key(name))
        fits = len(answer) + 3 + ENTRY_OVERHEAD_BYTES <= capacity
        assert held == (answer if fits else None)
    for name, answer in newest.items():
        assert cache.get(key(name)) in {None, answer}
