"""The one error: a sentence, with a hint where there is one."""

from noniid.errors import BadInput, unknown


def test_a_near_name_is_suggested_and_a_far_one_is_not() -> None:
    assert "did you mean 'fednova'?" in str(unknown("algorithm", "fednowa", ["fedavg", "fednova"]))
    assert "did you mean" not in str(unknown("algorithm", "zzz", ["fedavg", "fednova"]))


def test_all_known_names_are_listed_in_order() -> None:
    assert str(unknown("engine", "x", iter(["b", "a"]))) == "unknown engine 'x': Known: a, b."


def test_bad_input_is_a_value_error_whose_text_is_the_sentence() -> None:
    error = BadInput("give 1 or more.")
    assert isinstance(error, ValueError)
    assert str(error) == "give 1 or more."
