/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c - gin_ep._native: the types of calls.c, the functions of memory.c, and bind() */
#include "native.h"

struct bound bound;

/*
 * bind(addresses of ginEpDispatch, ginEpCombine, ginMemAlloc, ginMemFree, describe, rows_ready,
 * contiguous, stream, fail): see struct bound
 */
static PyObject *bind(PyObject *self, PyObject *arguments)
{
	unsigned long long dispatch, combine, memAlloc, memFree;
	struct bound now;

	(void)self;
	if (!PyArg_ParseTuple(arguments, "KKKKOOOOO", &dispatch, &combine, &memAlloc, &memFree,
			      &now.describe, &now.rowsReady, &now.contiguous, &now.stream,
			      &now.fail))
		return NULL;
	now.dispatch =
		(ginResult_t(*)(ginEp_t, const ginEpDispatchArgs_t *, void *))(uintptr_t)dispatch;
	now.combine =
		(ginResult_t(*)(ginEp_t, const ginEpCombineArgs_t *, void *))(uintptr_t)combine;
	now.memAlloc = (ginResult_t(*)(ginComm_t, size_t, void **))(uintptr_t)memAlloc;
	now.memFree = (ginResult_t(*)(ginComm_t, void *))(uintptr_t)memFree;
	Py_INCREF(now.describe);
	Py_INCREF(now.rowsReady);
	Py_INCREF(now.contiguous);
	Py_INCREF(now.stream);
	Py_INCREF(now.fail);
	bound = now;
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{"bind", bind, METH_VARARGS, "Gives the module the library and the package. Once."},
	{"tensors", viewTensors, METH_VARARGS,
	 "Describes tensors, as ginEpTensor_t at an address."},
	{"window_open", memoryOpen, METH_VARARGS, "Divides memory among tensors."},
	{"window_close", memoryClose, METH_VARARGS, "Frees the memory when its tensors are gone."},
	{"window_take", memoryTake, METH_VARARGS, "Memory for a tensor, or 0."},
	{"window_give", memoryGive, METH_VARARGS, "A tensor's memory is free again."},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "gin_ep._native",
	.m_doc = "ginEpDispatch() and ginEpCombine() on tensors of Python; memory of windows.",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (module &&
	    (callsAddTypes(module) ||
	     PyModule_AddIntConstant(module, "dispatch_args", sizeof(ginEpDispatchArgs_t)) ||
	     PyModule_AddIntConstant(module, "combine_args", sizeof(ginEpCombineArgs_t))))
		Py_CLEAR(module);
	return module;
}
