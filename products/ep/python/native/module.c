/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c - gin_ep._native: the types of calls.c, and bind() */
#include "native.h"

struct bound bound;

/*
 * bind(address of ginEpDispatch, address of ginEpCombine, describe, rows_ready, contiguous, stream,
 * fail): see struct bound
 */
static PyObject *bind(PyObject *self, PyObject *arguments)
{
	unsigned long long dispatch, combine;
	struct bound now;

	(void)self;
	if (!PyArg_ParseTuple(arguments, "KKOOOOO", &dispatch, &combine, &now.describe,
			      &now.rowsReady, &now.contiguous, &now.stream, &now.fail))
		return NULL;
	now.dispatch =
		(ginResult_t(*)(ginEp_t, const ginEpDispatchArgs_t *, void *))(uintptr_t)dispatch;
	now.combine =
		(ginResult_t(*)(ginEp_t, const ginEpCombineArgs_t *, void *))(uintptr_t)combine;
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
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "gin_ep._native",
	.m_doc = "ginEpDispatch() and ginEpCombine() on tensors of Python.",
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
