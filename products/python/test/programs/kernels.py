# SPDX-License-Identifier: BSD-3-Clause
"""Kernels in CUDA C++, compiled by NVRTC and launched by the CUDA driver, by ctypes alone."""

import ctypes
import glob
import site
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_void_p

import libgin


def nvrtc():
    """The library of torch's wheels or of the CUDA toolkit."""
    folders = site.getsitepackages() + sys.path
    wheels = [path for f in folders for path in glob.glob(f"{f}/nvidia/*/lib/libnvrtc.so.1?")]
    toolkits = glob.glob("/usr/local/cuda*/lib*/libnvrtc.so.1?")
    for path in [*wheels, *toolkits, "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise FileNotFoundError("there is no libnvrtc.so")


def _log(library, program):
    count = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, byref(count))
    text = ctypes.create_string_buffer(count.value)
    library.nvrtcGetProgramLog(program, text)
    return text.value.decode()


def compile_cubin(source, architecture):
    """A cubin of CUDA C++ that includes libgin's headers, for "sm_90" and the like."""
    library, program = nvrtc(), c_void_p()
    library.nvrtcCreateProgram(byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = ["-std=c++17", f"-I{libgin.include_dir()}", f"--gpu-architecture={architecture}"]
    listed = (c_char_p * len(options))(*(option.encode() for option in options))
    if library.nvrtcCompileProgram(program, len(options), listed):
        raise ValueError(_log(library, program))
    count = ctypes.c_size_t()
    library.nvrtcGetCUBINSize(program, byref(count))
    cubin = ctypes.create_string_buffer(count.value)
    library.nvrtcGetCUBIN(program, cubin)
    library.nvrtcDestroyProgram(byref(program))
    return cubin.raw


class Kernel:
    """A function of a cubin. The calling thread has a CUDA context."""

    def __init__(self, cubin, name):
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._function = c_void_p(), c_void_p()
        self._check(self._driver.cuModuleLoadData(byref(module), cubin))
        self._check(self._driver.cuModuleGetFunction(byref(self._function), module, name.encode()))

    @staticmethod
    def _check(result):
        if result:
            raise RuntimeError(f"the CUDA driver says {result}")

    def __call__(self, grid, block, stream, *arguments):
        """Arguments are ctypes objects: structs by value, numbers, addresses."""
        pointers = (c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        launch = self._driver.cuLaunchKernel
        launch.argtypes = [c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p]
        launch.restype = c_int
        self._check(launch(self._function, grid, 1, 1, block, 1, 1, 0, stream, pointers, None))
