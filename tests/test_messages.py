import pickle
import warnings

import pytest

from hotview._messages import Message, Parameter

MESSAGE = Message("a{b}.csv: pass ", Parameter("header", False), " or ", Parameter("id_column"))


def shout(parameter):
    return parameter.name.upper()


def test_a_message_is_its_python_spelling():
    assert MESSAGE == "a{b}.csv: pass header=False or id_column"


def test_parameters_can_be_spelled_otherwise():
    assert MESSAGE.spell(shout) == "a{b}.csv: pass HEADER or ID_COLUMN"


def test_errors_and_warnings_keep_the_parameters():
    with pytest.raises(ValueError, match="header=False") as caught:
        raise ValueError(MESSAGE)
    assert caught.value.args[0].spell(shout).endswith("ID_COLUMN")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(MESSAGE, stacklevel=1)
    assert caught[0].message.args[0].parts == MESSAGE.parts


def test_messages_can_be_nested():
    assert Message("Note: ", MESSAGE).spell(shout) == "Note: a{b}.csv: pass HEADER or ID_COLUMN"


def test_a_message_survives_pickle():
    again = pickle.loads(pickle.dumps(MESSAGE))
    assert again == MESSAGE
    assert again.parts == MESSAGE.parts
