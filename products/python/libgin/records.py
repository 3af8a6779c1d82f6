# SPDX-License-Identifier: BSD-3-Clause
"""What queries return: members of the C structs under Python's names."""

import ctypes
from dataclasses import dataclass, fields

from . import _abi
from ._library import call


def _camel(name):
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _snake(name):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _python(value, kind):
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return kind(value) if kind in (bool, int, str) else value


def from_struct(cls, struct):
    """An instance of a dataclass, filled with the members of `struct` that it has fields for."""
    members = ((f, getattr(struct, _camel(f.name), None)) for f in fields(cls))
    return cls(**{f.name: _python(value, f.type) for f, value in members if value is not None})


def plain(struct, without=("size", "pad")):
    """The members of a struct as a dict, under Python's names; structs and arrays in it, too."""

    def value(member):
        if isinstance(member, ctypes.Structure):
            return plain(member)
        if isinstance(member, ctypes.Array):
            return list(member)
        return member.decode(errors="replace") if isinstance(member, bytes) else member

    names = (name for name, *_ in struct._fields_ if name not in without)
    return {_snake(name): value(getattr(struct, name)) for name in names}


def counted(struct):
    """plain() of statistics; a number that the route does not count is None."""
    numbers = plain(struct)
    bits = numbers.pop("counted")
    posts = ("posted", "completed", "failed")
    for name, number in numbers.items():
        needed = _abi.GIN_COUNTED_POSTS if name in posts else _abi.GIN_COUNTED_BYTES
        if not isinstance(number, str) and name != "route" and not bits & needed:
            numbers[name] = None
    return numbers


def sized(struct_type):
    """A struct that begins with its size."""
    return struct_type(ctypes.sizeof(struct_type))


def query(cls, struct_type, name, *arguments):
    """Calls a query whose last argument is a sized struct."""
    struct = sized(struct_type)
    call(name, *arguments, ctypes.byref(struct))
    return from_struct(cls, struct)


@dataclass(frozen=True)
class CommunicatorInfo:
    """ginCommInfo_t"""

    rank: int
    n_ranks: int
    local_rank: int
    local_ranks: int
    hosts: int
    device: int
    backends: int
    bootstrap: str
    host: str
    device_name: str
    device_atomics: bool
    domain_rank: int
    domain_size: int


@dataclass(frozen=True)
class PeerInfo:
    """ginPeerInfo_t: a rank, and how data goes to it.

    `backend` is "direct", "gdaki", "proxy" or "none".
    """

    route: int
    same_host: bool
    same_process: bool
    host: str
    device: str
    backend: str
    why: str


@dataclass(frozen=True)
class BackendInfo:
    """ginBackendInfo_t"""

    usable: bool
    pairs: int
    name: str
    why: str


@dataclass(frozen=True)
class DeviceInfo:
    """ginDeviceInfo_t: a GPU that this process sees."""

    usable: bool
    domain: int
    numa_node: int
    compute_major: int
    compute_minor: int
    driver_version: int
    memory_bytes: int
    name: str
    uuid: str
    pci_bus_id: str
    why: str


@dataclass(frozen=True)
class Parameter:
    """ginParamInfo_t: an environment variable that libgin reads."""

    is_set: bool
    is_bad: bool
    name: str
    choices: str
    value: str
    preset: str
    meaning: str


@dataclass(frozen=True)
class ErrorRecord:
    """ginErrorRecord_t: the first failure of a device call. `sentence` describes it."""

    result: int
    call: int
    context: int
    peer: int
    id: int
    expected: int
    seen: int
    sentence: str = ""


def _listed(cls, struct_type, name):
    structs = [sized(struct_type)]
    call(name, 0, ctypes.byref(structs[0]))
    for index in range(1, structs[0].count):
        structs.append(sized(struct_type))
        call(name, index, ctypes.byref(structs[-1]))
    return [from_struct(cls, struct) for struct in structs[: structs[0].count]]


def devices() -> list[DeviceInfo]:
    """The GPUs that this process sees. Makes no CUDA context."""
    return _listed(DeviceInfo, _abi.ginDeviceInfo, "ginDeviceQuery")


def parameters() -> list[Parameter]:
    """The environment variables that libgin reads, and their values."""
    return _listed(Parameter, _abi.ginParamInfo, "ginParamQuery")
