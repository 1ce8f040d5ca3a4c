import pickle

import pytest

from hotview._messages import Message, Parameter, ParameterError, warn_user

NO_HEADER = Parameter("header", False)
MESSAGE = Message("a{b}.csv: ", "Pass {no} or {id_column}.", no=NO_HEADER)


def shout(parameter):
    return parameter.name.upper()


def test_messages_spell_parameters_and_can_be_continued():
    assert MESSAGE == "a{b}.csv: Pass header=False or id_column."
    assert Message(MESSAGE, " See {drop}.").spell(shout).endswith("HEADER or ID_COLUMN. See DROP.")


def test_errors_and_warnings_keep_the_parameters_and_point_at_the_line_of_the_user():
    with pytest.raises(ValueError, match="header=False") as error:
        raise ParameterError("", "Pass {no}.", no=NO_HEADER)
    assert error.value.args[0].spell(shout) == "Pass HEADER."
    with pytest.warns(FutureWarning, match="Pass") as caught:
        warn_user(MESSAGE, FutureWarning)
    assert caught[0].message.args[0].parts == MESSAGE.parts
    assert caught[0].filename == __file__


@pytest.mark.parametrize("value", (MESSAGE, ParameterError(MESSAGE)))
def test_parameters_survive_pickle(value):
    again = pickle.loads(pickle.dumps(value))
    assert str(again) == str(value)
    message = again.args[0] if isinstance(again, ParameterError) else again
    assert message.parts == MESSAGE.parts
