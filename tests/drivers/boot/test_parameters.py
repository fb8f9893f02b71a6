"""The kernel command line: what is said, in which order, and what cannot be said."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.drivers.boot import parameters
from tests.support import fake_task

DEFAULT = "nofb vga=normal"


def test_our_own_parameters_come_first_and_none_is_left_out() -> None:
    own = {"ipa-api-url": "http://192.0.2.1:6385", "BOOTIF": None, "ipa-debug": "1"}
    assert parameters.words(own, DEFAULT) == [
        "ipa-api-url=http://192.0.2.1:6385",
        "ipa-debug=1",
        "nofb",
        "vga=normal",
    ]


def test_the_instance_comes_before_the_node_and_that_before_the_configuration() -> None:
    node = fake_task.node()
    assert parameters.appended(node, DEFAULT) == DEFAULT
    node.driver_info = {"kernel_append_params": "console=ttyS0"}
    assert parameters.appended(node, DEFAULT) == "console=ttyS0"
    node.instance_info = {"kernel_append_params": "quiet %default%"}
    assert parameters.appended(node, DEFAULT) == "quiet nofb vga=normal"


def test_nothing_at_all_can_be_added() -> None:
    node = fake_task.node(driver_info={"kernel_append_params": ""})
    assert parameters.appended(node, DEFAULT) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (True, "must be a string, not bool"),
        ("a\nb", "one line of printable"),
        ("a\tb", "one line of printable"),
        ("köln", "one line of printable"),
        ("x" * 1952, "has 1952 characters"),
        ("quiet ; reboot", "';' would end the line"),
        ("quiet && shell", "'&&' would end the line"),
        ("quiet #", "'#' would end the line"),
    ],
    ids=["boolean", "line", "tab", "umlaut", "long", "semicolon", "and", "comment"],
)
def test_invalid_kernel_parameter_is_refused_by_its_place(text: object, said: str) -> None:
    node = fake_task.node(driver_info={"kernel_append_params": text})
    with pytest.raises(
        errors.InvalidParameter, match=r"^driver_info/kernel_append_params: "
    ) as why:
        parameters.appended(node, DEFAULT)
    assert said in why.value.message


@pytest.mark.parametrize("value", ["a b", "a\nb", "é"], ids=["space", "line", "accent"])
def test_a_value_of_ours_is_one_word(value: str) -> None:
    with pytest.raises(errors.InvalidParameter, match=r"^ipa-api-url: must be one printable word"):
        parameters.words({"ipa-api-url": value}, "")


def test_a_line_that_is_too_long_as_a_whole_is_refused() -> None:
    with pytest.raises(errors.InvalidParameter, match="has 1952 characters; a kernel reads 1951"):
        parameters.words({"a": "x" * 1000}, "y" * 949)
    assert parameters.words({"a": "x" * 1000}, "y" * 948)


def test_the_card_is_named_where_there_is_but_one() -> None:
    assert parameters.bootif(["52:54:00:AA:bb:cc"]) == "01-52-54-00-aa-bb-cc"
    assert parameters.bootif([]) is None
    assert parameters.bootif(["52:54:00:aa:bb:cc", "52:54:00:aa:bb:cd"]) is None
