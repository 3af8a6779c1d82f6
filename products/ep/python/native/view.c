/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * view.c - Python's tensors as ginEpTensor_t
 *
 * Tensors whose type has DLPack's exchange functions (torch from 2.10 on) are described without a
 * call of Python; others, NumPy's arrays among them, by the package's describe().
 */
#include "native.h"

#include <string.h>

#include "dlpack.h"

enum { TYPES = 4, DIMS = 4 };

/* The types that were seen last, with their functions; NULL: the type has none. */
static struct {
	PyTypeObject *type; /* owned */
	const struct dlExchange *exchange;
} seen[TYPES];

static unsigned oldest;

/* Of the type's attribute; NULL without one, or with one of another version. */
static const struct dlExchange *exchangeOfType(PyTypeObject *type)
{
	PyObject *capsule = PyObject_GetAttrString((PyObject *)type, EXCHANGE_ATTRIBUTE);
	const struct dlExchange *exchange =
		capsule ? PyCapsule_GetPointer(capsule, EXCHANGE_CAPSULE) : NULL;

	PyErr_Clear();
	Py_XDECREF(capsule);
	while (exchange && exchange->major != DL_MAJOR)
		exchange = exchange->older;
	return exchange && exchange->describe ? exchange : NULL;
}

static const struct dlExchange *exchangeOf(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	for (unsigned i = 0; i < TYPES; i++)
		if (seen[i].type == type)
			return seen[i].exchange;
	unsigned at = oldest++ % TYPES;
	Py_XDECREF((PyObject *)seen[at].type);
	Py_INCREF((PyObject *)type);
	seen[at].type = type;
	seen[at].exchange = exchangeOfType(type);
	return seen[at].exchange;
}

/* enum ginEpType, or -1. Types without bf16 and e4m3 have uint16 and uint8 in their place. */
static int32_t kindOf(struct dlType type)
{
	static const struct {
		uint8_t code, bits;
		int32_t kind;
	} kinds[] = {
		{dlBfloat, 16, ginEpBf16},	{dlUint, 16, ginEpBf16},  {dlFloat, 32, ginEpF32},
		{dlFloat8E4m3, 8, ginEpF8E4m3}, {dlUint, 8, ginEpF8E4m3}, {dlInt, 32, ginEpI32},
		{dlUint, 32, ginEpI32},		{dlInt, 64, ginEpI64},	  {dlBool, 8, ginEpU8}};

	for (size_t i = 0; type.lanes == 1 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].code == type.code && kinds[i].bits == type.bits)
			return kinds[i].kind;
	return -1;
}

/* NULL stands for "no tensor" in the C library; tensors without elements have the address 0. */
static void *addressOf(const void *data, uint64_t offset)
{
	return data ? (void *)((uintptr_t)data + offset) : (void *)(uintptr_t)16;
}

/* 1: described; 0: by another way; -1: exception. */
static int fillByExchange(struct view *view)
{
	const struct dlExchange *exchange = exchangeOf(view->object);
	ginEpTensor_t *t = &view->tensor;
	struct dlTensor from;
	int64_t step = 1;

	if (!exchange)
		return 0;
	if (exchange->describe(view->object, &from))
		return -1;
	t->type = kindOf(from.type);
	if (t->type < 0 || from.nDims > DIMS ||
	    (from.deviceType != dlCuda && from.deviceType != dlCpu))
		return 0; /* the package's describe() has the sentence */
	t->data = addressOf(from.data, from.byteOffset);
	t->nDims = from.nDims;
	for (int32_t i = from.nDims - 1; i >= 0; i--) {
		t->size[i] = from.shape[i];
		t->stride[i] = from.strides ? from.strides[i] : step;
		step *= from.shape[i];
	}
	view->gpu = from.deviceType == dlCuda ? from.deviceId : -1;
	return 1;
}

static int numbers(PyObject *tuple, int64_t *out)
{
	for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++)
		if ((out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i))) == -1 &&
		    PyErr_Occurred())
			return -1;
	return 0;
}

static int fillByPython(struct view *view, const char *name)
{
	ginEpTensor_t *t = &view->tensor;
	PyObject *shape, *strides;
	unsigned long long address;
	int result = -1;
	PyObject *said = PyObject_CallFunction(bound.describe, "Os", view->object, name);

	if (!said)
		return -1;
	if (PyArg_ParseTuple(said, "KiiO!O!", &address, &t->type, &view->gpu, &PyTuple_Type, &shape,
			     &PyTuple_Type, &strides) &&
	    !numbers(shape, t->size) && !numbers(strides, t->stride)) {
		t->nDims = (int32_t)PyTuple_Size(shape);
		t->data = addressOf((void *)(uintptr_t)address, 0);
		result = 0;
	}
	Py_DECREF(said);
	return result;
}

static int wrongDevice(const struct view *view, const char *name, int32_t gpu)
{
	char where[32] = "host threads", at[32] = "the CPU";

	if (gpu >= 0)
		PyOS_snprintf(where, sizeof(where), "GPU %d", gpu);
	if (view->gpu >= 0)
		PyOS_snprintf(at, sizeof(at), "GPU %d", view->gpu);
	PyErr_Format(PyExc_ValueError, "%s is on %s, the ranks use %s", name, at, where);
	return -1;
}

int viewFill(struct view *view, PyObject *object, const char *name, int32_t gpu)
{
	memset(view, 0, sizeof(*view));
	if (object == Py_None)
		return 0;
	Py_INCREF(object);
	view->object = object;
	int described = fillByExchange(view);
	if (described < 0 || (!described && fillByPython(view, name)))
		return -1;
	return view->gpu == gpu ? 0 : wrongDevice(view, name, gpu);
}

void viewDrop(struct view *view)
{
	Py_CLEAR(view->object);
}

static int replace(struct view *view, PyObject *how, const char *name, int32_t gpu)
{
	PyObject *copy = PyObject_CallFunctionObjArgs(how, view->object, NULL);

	if (!copy)
		return -1;
	viewDrop(view);
	int result = viewFill(view, copy, name, gpu);
	Py_DECREF(copy);
	return result;
}

static int isEmpty(const ginEpTensor_t *t)
{
	for (int32_t i = 0; i < t->nDims; i++)
		if (!t->size[i])
			return 1;
	return 0;
}

int viewNeedRows(struct view *view, const char *name, int32_t gpu)
{
	const ginEpTensor_t *t = &view->tensor;
	int64_t bytes = t->type == ginEpF8E4m3 ? 1 : 2; /* of an element of a row: bf16, or e4m3 */
	int good = t->nDims > 0 && t->stride[t->nDims - 1] == 1 && (uintptr_t)t->data % 16 == 0;

	for (int32_t i = 0; i < t->nDims - 1; i++)
		good = good && t->stride[i] * bytes % 16 == 0;
	return good || isEmpty(t) ? 0 : replace(view, bound.rowsReady, name, gpu);
}

int viewNeedContiguous(struct view *view, const char *name, int32_t gpu)
{
	const ginEpTensor_t *t = &view->tensor;
	int64_t step = 1;
	int good = 1;

	for (int32_t i = t->nDims - 1; i >= 0; i--) {
		good = good && (t->stride[i] == step || t->size[i] == 1);
		step *= t->size[i];
	}
	return !view->object || good || isEmpty(t) ? 0 : replace(view, bound.contiguous, name, gpu);
}

static int streamByPython(const struct view *like, void **stream)
{
	PyObject *number = PyObject_CallFunctionObjArgs(bound.stream, like->object, NULL);

	if (!number)
		return -1;
	*stream = PyLong_AsVoidPtr(number);
	Py_DECREF(number);
	return PyErr_Occurred() ? -1 : 0;
}

int streamOf(PyObject *object, const struct view *like, void **stream)
{
	*stream = NULL;
	if (object != Py_None) {
		*stream = PyLong_AsVoidPtr(object);
		return PyErr_Occurred() ? -1 : 0;
	}
	if (like->gpu < 0)
		return 0;
	const struct dlExchange *exchange = exchangeOf(like->object);
	if (!exchange)
		return streamByPython(like, stream);
	return exchange->currentStream(dlCuda, like->gpu, stream) ? -1 : 0;
}

PyObject *viewTensors(PyObject *self, PyObject *arguments)
{
	unsigned long long address;
	PyObject *names, *objects;
	int gpu;

	(void)self;
	if (!PyArg_ParseTuple(arguments, "KiO!O!", &address, &gpu, &PyTuple_Type, &names,
			      &PyTuple_Type, &objects))
		return NULL;
	ginEpTensor_t *out = (ginEpTensor_t *)(uintptr_t)address;
	for (Py_ssize_t i = 0; i < PyTuple_Size(objects); i++) {
		const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
		struct view view = {0};

		if (!name || viewFill(&view, PyTuple_GetItem(objects, i), name, gpu)) {
			viewDrop(&view);
			return NULL;
		}
		out[i] = view.tensor;
		viewDrop(&view);
	}
	Py_RETURN_NONE;
}
