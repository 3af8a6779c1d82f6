# SPDX-License-Identifier: BSD-3-Clause
"""Checks of what callers pass."""

import functools
import inspect

OTHER_BUFFERS = {"HybridEPBuffer": "of DeepEP's branch hybrid-ep"}


def absent(owner, name):
    """The AttributeError of a name that DeepEP has, or that nobody has."""
    words = f"{owner} of gin_ep.deep_ep has no attribute {name!r}"
    if name in OTHER_BUFFERS:
        words += f", which is {OTHER_BUFFERS[name]}: use Buffer"
    return AttributeError(words)


class NamesAbsent(type):
    """A class whose unknown names are an AttributeError with the reason."""

    def __getattr__(cls, name):
        raise absent(cls.__name__, name)


def require(condition, words):
    """A ValueError if the caller has not kept a rule."""
    if not condition:
        raise ValueError(words)


def shape_of_rows(name, tensor, sizes):
    """The shape of a tensor of two dimensions, [tokens, ...]; an error if it is another thing."""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        raise TypeError(f"{name} is a {type(tensor).__name__}: give a tensor, {sizes}")
    if len(shape) != 2:
        raise ValueError(f"{name} has the shape {list(shape)}: give a tensor, {sizes}")
    return shape


def names_unknown_keywords(function):
    """A TypeError names all keywords that the function does not have."""
    known = set(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments, **keywords):
        if not known.issuperset(keywords):
            unknown = [name for name in keywords if name not in known]
            raise TypeError(f"{function.__qualname__}() of gin_ep.deep_ep has no argument {', '.join(unknown)}")
        return function(*arguments, **keywords)

    return checked
