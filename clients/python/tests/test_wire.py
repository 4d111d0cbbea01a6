"""Answers as they arrive, whatever arrives."""

import json
from typing import Any

import pytest

import weir
from weir._wire import ELEMENT_LIMIT, Elements, Place, decoded, refusal

OUTCOMES: list[dict[str, Any]] = [
    {"guest": "a]},{"},
    {"guest": 'b"\\', "status": {"state": "running", "vnics": {"lan": "ä"}}},
    {"guest": "c", "error": {"kind": "refused", "error": "why", "field": None}},
]


def read(pieces: list[str]) -> list[weir.GuestOutcome]:
    elements = Elements(weir.GuestOutcome)
    found = [each for piece in pieces for each in elements.add(piece)]
    elements.end(Place("/nowhere", None, None, None))
    return found


def test_a_list_is_read_whatever_pieces_it_comes_in() -> None:
    text = json.dumps(OUTCOMES).replace("}, {", "},\n{") + "\n"
    expected = [weir.GuestOutcome.model_validate(each) for each in OUTCOMES]
    for length in range(1, len(text) + 1):
        pieces = [text[i : i + length] for i in range(0, len(text), length)]
        assert read(pieces) == expected
    assert read(["[", "]\n"]) == []


def test_an_element_is_there_with_its_last_character() -> None:
    elements = Elements(weir.GuestOutcome)
    assert elements.add('[{"guest": "a"') == []
    assert [each.guest for each in elements.add("}")] == ["a"]


def test_an_answer_that_breaks_off_is_an_error() -> None:
    for text in ["", "[", '[{"guest": "a"}', '[{"guest": "a"']:
        with pytest.raises(weir.Unavailable, match="ended before its answer did"):
            read([text])


def test_an_answer_that_is_something_else_is_an_error() -> None:
    for text in ["{}", "[1]", '[{"guest": 1}]', "[]x", "[[", "null"]:
        with pytest.raises(weir.Failed, match="is it of the same version"):
            read([text])
    with pytest.raises(weir.Failed, match="an element is too long"):
        read(['[{"guest": "', "x" * ELEMENT_LIMIT])
    with pytest.raises(weir.Failed, match="cannot be parsed"):
        decoded(weir.HandlerValue, b"{")


def test_a_newer_nodes_answer_may_have_more_fields_but_a_request_may_not() -> None:
    assert decoded(weir.HandlerValue, b'{"value": "3", "more": 1}').value == "3"
    with pytest.raises(ValueError, match="memroy"):
        weir.Guest(memroy="4M")  # type: ignore[call-arg]


def test_an_error_of_an_unknown_kind_is_an_error_all_the_same() -> None:
    error = refusal(418, b'{"kind": "new", "error": "why", "field": "name"}')
    assert (error.kind, error.sentence, error.field) == ("new", "why", "name")
    assert type(error) is weir.WeirError
    for text in [b"", b"<html>", b"[]", b'{"kind": 1}', b"null"]:
        error = refusal(502, text)
        assert isinstance(error, weir.Failed) and "502" in error.sentence
