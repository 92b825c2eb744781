"""Numbers are read from text, and shown in columns."""

from tinyattn.study.numbers import format_array, parse_array


def test_numbers_are_read_and_shown():
    assert parse_array("1,2;3,4", "--x", axes=(2,)).tolist() == [[1, 2], [3, 4]]
    assert parse_array("-1e-3", "--x").tolist() == [-0.001]
    assert format_array([[1, -20.5], [0, 1e-9]]) == ["[  1.0000  -20.5000]", "[  0.0000   1.0e-09]"]
