"""Plain data is read from pickles; nothing of a pickle is imported or called."""

import argparse
import math
import pickle
import zlib

import numpy as np
import pytest

from harness.core import plain_pickle
from harness.core.plain_pickle import PlainObject, UnsafePickle, load_compressed
from tests.helpers.results_examples import Planted

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_data_is_read_as_it_was_written(protocol):
    atoms = [None, True, False, 0, -1, 255, 2**16, -(2**31), 2**70, 0.1, -0.0, math.inf]
    texts = ["", "a\nb", "\x1b", "größer", "\U0001f600" * 300]
    value = [*atoms, *texts, atoms, (), (1,), (1, (2.5,)), tuple(atoms), [], {}]
    value.append({None: [{}], True: ({"a": []},), -3: value[:5], "key": {"inner": texts}})
    data = pickle.dumps(value, protocol)
    assert repr(load_compressed(data)) == repr(value)
    assert repr(load_compressed(zlib.compress(data))) == repr(value)


def test_data_that_is_shared_is_shared_again():
    shared = [1]
    first, second = load_compressed(pickle.dumps([shared, shared]))
    assert first is second


@pytest.mark.parametrize("protocol", PROTOCOLS[2:])
def test_an_object_of_an_expected_class_is_its_name_and_attributes(protocol):
    data = pickle.dumps(argparse.Namespace(technique=["A"], test_limit=5), protocol)
    read = load_compressed(data)
    assert read == PlainObject("argparse.Namespace", {"technique": ["A"], "test_limit": 5})
    with pytest.raises(UnsafePickle, match=r"argparse\.Namespac2"):
        load_compressed(data.replace(b"Namespace", b"Namespac2"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_number_of_numpy_is_a_plain_number(protocol):
    values = [np.int64(-5), np.uint8(3), np.float64(0.1), np.float32(0.25), np.bool_(True)]
    read = load_compressed(pickle.dumps(values, protocol))
    assert repr(read) == "[-5, 3, 0.1, 0.25, True]"


@pytest.mark.parametrize(
    "value", [np.str_("a"), np.arange(3), np.complex64(1), np.datetime64(1, "s")]
)
def test_other_data_of_numpy_is_refused(value):
    with pytest.raises(UnsafePickle, match="numpy"):
        load_compressed(pickle.dumps(value, 2))


def test_a_stream_that_is_cut_off_is_refused():
    """OpenTuner would unpickle the bytes as they are."""
    data = zlib.compress(pickle.dumps([1, 2, 3]))
    assert load_compressed(data) == [1, 2, 3]
    with pytest.raises(UnsafePickle):
        load_compressed(data[:-1])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_function_is_refused_by_its_name_and_not_called(tmp_path, protocol):
    planted = tmp_path / "planted"
    for value in (Planted(planted), [{"a": (Planted(planted),)}]):
        with pytest.raises(UnsafePickle, match=r"mkdir"):
            load_compressed(pickle.dumps(value, protocol))
    assert not planted.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        b"\x80\x02.",
        b"]" * 5,
        b"cargparse\nNamespace\n.",  # the class itself
        b"cargparse\nNamespace\n}b.",  # attributes of the class
        b"cargparse\nNamespace\nK\x01\x85\x81.",  # with an argument
        b"cnumpy\ndtype\n(S'i8'\nI0\nI1\ntRI0\nb.",  # the state of a type of numbers
        b"c_codecs\nencode\n(Vsome\nVrot13\ntR.",
        b"cnumpy.core.multiarray\nscalar\n(NNtR.",
        b"Pname\n.",
        b"K\x01a.",
        b"]]s.",
        b"h\x05.",
        b"t.",
        b"\x80\x02J\x01",
        b"cargparse\nNamespace\nN}VA\nI1\ns\x86b.",  # the slots of the class
        b"cargparse\nNamespace\n)\x81(VA\nlb.",  # attributes that are no dictionary
        b"cargparse\nNamespace\n)\x81N}VA\nI1\ns\x86b.",  # slots of an object
        b"]cargparse\nNamespace\na.",  # the class in a list
        b"}cargparse\nNamespace\nNs.",  # the class as a key
        b"c_codecs\nencode\n.",  # a function itself
        b"c_codecs\nencode\n}V_call\nNsb.",  # attributes of a function
        b"c_codecs\nencode\nN}V__defaults__\nNs\x86b.",
        b"c_codecs\nencode\n)\x81.",
        b"cnumpy\ndtype\n(S'i8'\ntR.",  # a type of numbers itself
        b"cnumpy\ndtype\n(S'i8'\ntR(I3\nVi4,\ntb.",
        b"\x80\x02\x8c\x08argparse\x8c\x15Namespace.__globals__\x93.",
        b"\x80\x02\x82\x01.",  # by a number of copyreg
        b"\x80\x02NQ.",  # a persistent id
        b"\x80\x04\x8f.",  # a set
        b"\x80\x05\x97.",  # a buffer
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",  # a bytearray of 8 EiB
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",  # and bytes
        b"]r\xff\xff\xff\x7f.",  # the 2^31st object
        b"]p4294967295\n.",
        b"}N" + b"\x85" * 30_000 + b"Ns.",  # a key that overflows the stack when it is hashed
    ],
)
def test_what_is_no_plain_data_is_refused(data):
    with pytest.raises(UnsafePickle):
        load_compressed(data)


def test_texts_and_bombs_in_place_of_pickles_are_refused(monkeypatch):
    monkeypatch.setattr(plain_pickle, "_MAX_BYTES", 1 << 20)
    with pytest.raises(UnsafePickle, match="str in place"):
        load_compressed("text")
    with pytest.raises(UnsafePickle, match="1 MiB"):
        load_compressed(zlib.compress(bytes(1 << 21)))


def test_what_a_pickle_does_to_stand_ins_does_not_outlive_it():
    made = PlainObject("argparse.Namespace", {"a": 1})
    data = pickle.dumps(argparse.Namespace(a=1), 2)
    for change in (
        b"cargparse\nNamespace\nN}V__new__\nNs\x86b0",
        b"c_codecs\nencode\n}V__call__\nNsb0",
        b"c_codecs\nencode\nN}V__defaults__\nNs\x86b0",
    ):
        assert load_compressed(change + data) == made
    assert load_compressed(data) == made
    with pytest.raises(UnsafePickle):
        load_compressed(b"cargparse\nNamespace\nN}V__new__\nNs\x86b)\x81.")
    assert load_compressed(pickle.dumps(b"bytes", 2)) == b"bytes"


def test_data_that_contains_itself_is_read():
    endless = []
    endless.append({"it": endless})
    (read,) = load_compressed(pickle.dumps(endless))
    assert read["it"][0] is read
