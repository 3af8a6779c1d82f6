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


def refuse_unknown(name, keywords):
    raise TypeError(f"{name}() of gin_ep.deep_ep has no argument {', '.join(keywords)}")


def without_unknown(function):
    """A function that passes its `unknown` keywords to refuse_unknown(): the parameter is not part of its signature.

    For calls whose time counts: names_unknown_keywords() calls the function through another one.
    """
    signature = inspect.signature(function)
    known = [one for one in signature.parameters.values() if one.kind != inspect.Parameter.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=known)
    return function


def names_unknown_keywords(function):
    """A TypeError names all keywords that the function does not have."""
    known = set(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments, **keywords):
        if not known.issuperset(keywords):
            refuse_unknown(function.__qualname__, [name for name in keywords if name not in known])
        return function(*arguments, **keywords)

    return checked
