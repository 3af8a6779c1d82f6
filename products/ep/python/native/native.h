/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native.h - the module gin_ep._native: from a Python call to ginEpDispatch() and ginEpCombine()
 *
 * All of it runs with the interpreter's lock, which is given back during the two calls. Python's
 * limited API of 3.10: one build serves all later versions.
 */
#ifndef GIN_EP_NATIVE_H
#define GIN_EP_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include "gin_ep.h"

/* What bind() was given: functions of the libraries and of the package. Never freed. */
struct bound {
	ginResult_t (*dispatch)(ginEp_t ep, const ginEpDispatchArgs_t *args, void *stream);
	ginResult_t (*combine)(ginEp_t ep, const ginEpCombineArgs_t *args, void *stream);
	ginResult_t (*memAlloc)(ginComm_t comm, size_t bytes, void **ptr);
	ginResult_t (*memFree)(ginComm_t comm, void *ptr);
	PyObject *describe;   /* (tensor, name) -> (address, kind, GPU or -1, shape, strides) */
	PyObject *rowsReady;  /* (tensor) -> the tensor, or a copy with rows that are aligned */
	PyObject *contiguous; /* (tensor) -> the tensor, or a copy without gaps */
	PyObject *stream;     /* (tensor) -> its current stream, an int */
	PyObject *fail;	      /* (name of a C call, ginResult_t): raises */
};

extern struct bound bound;

/* A tensor that a call uses; `object` is NULL for none. */
struct view {
	PyObject *object; /* owned */
	ginEpTensor_t tensor;
	int32_t gpu; /* -1: memory of the host */
};

/*
 * Describes `object`, which may be None. `gpu` is where the ranks are: memory of another device is
 * a ValueError. -1 with an exception of Python, else 0. The view wants viewDrop() in both cases.
 */
int viewFill(struct view *view, PyObject *object, const char *name, int32_t gpu);
void viewDrop(struct view *view);

/* Replaces a tensor by a copy where the kernels could not read it. -1 with an exception. */
int viewNeedRows(struct view *view, const char *name, int32_t gpu);
int viewNeedContiguous(struct view *view, const char *name, int32_t gpu);

/* tensors(address, GPU or -1, names, objects): describes objects, or None, one after the other. */
PyObject *viewTensors(PyObject *self, PyObject *arguments);

/* The stream of `object`, an int or None: None is the current stream of the device of `like`. */
int streamOf(PyObject *object, const struct view *like, void **stream);

/*
 * memory.c: window_open(address, bytes) -> its number, window_close(number),
 * window_take(number, bytes) -> address or 0, window_give(number, address). The memory of a window
 * is freed when it is closed and all that was taken is given back.
 */
PyObject *memoryOpen(PyObject *self, PyObject *arguments);
PyObject *memoryClose(PyObject *self, PyObject *arguments);
PyObject *memoryTake(PyObject *self, PyObject *arguments);
PyObject *memoryGive(PyObject *self, PyObject *arguments);

/* Adds the types Calls and Call. -1 with an exception. */
int callsAddTypes(PyObject *module);

#endif
