"""Frames: whatever way the bytes are cut, the same messages come out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.rpc.sockets import frames, transport_errors

LIMIT = 2**20

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
BODIES = st.lists(st.dictionaries(st.text(), JSON), max_size=4)


@given(BODIES, st.lists(st.integers(1, 50)))
def test_frames_cut_anywhere_come_out_whole(bodies: list[dict[str, Any]], cuts: list[int]) -> None:
    data = b"".join(frames.encode(body, LIMIT) for body in bodies)
    reader = frames.Reader(LIMIT)
    found = []
    for size in [*cuts, len(data)]:
        found += list(reader.feed(data[:size]))
        data = data[size:]
    found += list(reader.feed(data))
    assert found == bodies


def test_a_reader_asks_for_more_within_a_large_frame() -> None:
    reader = frames.Reader(2**30)
    small = reader.wanted
    assert list(reader.feed(frames.HEADER.pack(2**29))) == []
    assert small < reader.wanted <= 2**20


def test_a_frame_that_announces_too_much_is_refused_before_it_comes() -> None:
    reader = frames.Reader(LIMIT)
    with pytest.raises(transport_errors.FrameTooLarge, match=r"2\.0 MiB.*1 MiB.*frame_limit_mib"):
        list(reader.feed(frames.HEADER.pack(2 * LIMIT)))


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"1", b"null", b"\xff\xfe", b'{"a": NaN}'])
def test_frame_that_is_no_json_object_is_refused(payload: bytes) -> None:
    reader = frames.Reader(LIMIT)
    with pytest.raises(transport_errors.BadFrame):
        list(reader.feed(frames.HEADER.pack(len(payload)) + payload))


def test_a_refusal_tells_sizes_and_reason() -> None:
    why = transport_errors.FrameTooLarge(2 * LIMIT, LIMIT, "answer")
    (body,) = frames.Reader(LIMIT).feed(frames.refusal(why, 7))
    assert body["id"] == 7
    assert str(frames.refused(body)) == str(why)
    (body,) = frames.Reader(LIMIT).feed(frames.refusal(transport_errors.BadFrame("no")))
    assert isinstance(frames.refused(body), transport_errors.BadFrame)
    assert frames.refused({"id": 1, "result": None}) is None
