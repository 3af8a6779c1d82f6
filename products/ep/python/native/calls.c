/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c - the types Calls, the two calls of an Ep, and Call, a call that has not received
 *
 * A call describes its tensors, makes outputs, and calls the C library. The C library checks sizes.
 */
#include "native.h"

#include <string.h>

enum { IN_X, IN_SCALES, IN_INDEX, IN_WEIGHTS, IN_STATS, IN_COST, IN_GLOBAL, INPUTS };
enum {
	OUT_X,
	OUT_SCALES,
	OUT_COUNT,
	OUT_SOURCE,
	OUT_RANGE,
	OUT_INDEX,
	OUT_WEIGHTS,
	OUT_HANDLE,
	OUTPUTS
};
enum { ROWS_X, ROWS_HANDLE, ROWS_INDEX, ROWS_WEIGHTS, ROWS_READY, ROWS_COST, ROWS_OUT };

static const char *const inputNames[] = {"x",	  "x_scales",  "topk_idx",	"topk_weights",
					 "stats", "wait_cost", "x_global_scale"};
static const char *const outputNames[] = {
	"out.x",	"out.scales",	    "out.count", "out.src_info", "out.layout_range",
	"out.topk_idx", "out.topk_weights", "out.handle"};

/* The Ep of Python, as far as calls need it. */
struct calls {
	PyObject_HEAD ginEp_t ep; /* NULL: destroyed */
	int32_t gpu;
	int64_t handleBytes;
};

/* A call and the tensors that it reads and writes. */
struct work {
	struct calls *calls; /* owned by a Call */
	int isDispatch;
	union {
		ginEpDispatchArgs_t dispatch;
		ginEpCombineArgs_t combine;
	} args;
	struct view views[INPUTS + OUTPUTS];
};

struct call {
	PyObject_HEAD struct work work;
	int isReceived;
};

static PyTypeObject *callType;

static void workDrop(struct work *work)
{
	for (size_t i = 0; i < sizeof(work->views) / sizeof(*work->views); i++)
		viewDrop(&work->views[i]);
}

static int launch(struct work *work, void *stream)
{
	ginEp_t ep = work->calls->ep;
	ginResult_t result;

	if (!ep) {
		PyErr_SetString(PyExc_ValueError, "the Ep is destroyed");
		return -1;
	}
	Py_BEGIN_ALLOW_THREADS result = work->isDispatch
						? bound.dispatch(ep, &work->args.dispatch, stream)
						: bound.combine(ep, &work->args.combine, stream);
	Py_END_ALLOW_THREADS if (!result) return 0;
	Py_XDECREF(PyObject_CallFunction(bound.fail, "si",
					 work->isDispatch ? "ginEpDispatch" : "ginEpCombine",
					 (int)result));
	return -1;
}

/* A Call that takes over the tensors of `work`. */
static PyObject *callOf(struct work *work, int isReceived)
{
	struct call *call = PyObject_New(struct call, callType);

	if (!call)
		return NULL;
	call->work = *work;
	call->isReceived = isReceived;
	Py_INCREF((PyObject *)work->calls);
	memset(work->views, 0, sizeof(work->views));
	return (PyObject *)call;
}

/*
 * What dispatch() and combine() return: (made, Call or None). Work on a stream that is not torch's
 * current one, and work that has not received, keeps its tensors.
 */
static PyObject *resultOf(struct work *work, PyObject *made, PyObject *stream, uint32_t phase)
{
	PyObject *call = Py_None, *both = NULL;

	Py_INCREF(call);
	if (phase == GIN_EP_SEND || stream != Py_None) {
		Py_DECREF(call);
		call = callOf(work, phase != GIN_EP_SEND);
	}
	if (call)
		both = PyTuple_Pack(2, made, call);
	Py_XDECREF(call);
	return both;
}

static int needed(struct view *view, PyObject *object, const char *name, int32_t gpu)
{
	if (object != Py_None)
		return viewFill(view, object, name, gpu);
	memset(view, 0, sizeof(*view));
	Py_XDECREF(PyObject_CallFunction(bound.describe, "Os", object, name)); /* raises */
	return -1;
}

static int isNumber(PyObject *object, uint32_t *out)
{
	unsigned long value = PyLong_AsUnsignedLong(object);

	*out = (uint32_t)value;
	return !PyErr_Occurred();
}

static int checkHandle(const struct calls *calls, const struct view *handle)
{
	const ginEpTensor_t *t = &handle->tensor;
	int64_t bytes =
		t->type == ginEpF8E4m3 && t->nDims == 1 && t->stride[0] == 1 ? t->size[0] : -1;

	if (bytes >= calls->handleBytes)
		return 0;
	PyErr_Format(PyExc_ValueError, "handle needs %lld bytes of uint8 without gaps",
		     (long long)calls->handleBytes);
	return -1;
}

static int checkTwoDimensions(const struct view *x, const struct view *index)
{
	PyObject *shapes[2];

	if (x->tensor.nDims == 2 && index->tensor.nDims == 2)
		return 0;
	shapes[0] = PyObject_GetAttrString(x->object, "shape");
	shapes[1] = shapes[0] ? PyObject_GetAttrString(index->object, "shape") : NULL;
	if (shapes[1])
		PyErr_Format(PyExc_ValueError,
			     "x and topk_idx need 2 dimensions; their shapes are %S and %S",
			     shapes[0], shapes[1]);
	Py_XDECREF(shapes[0]);
	Py_XDECREF(shapes[1]);
	return -1;
}

static int viewInputs(struct work *work, PyObject *const *objects)
{
	const int32_t gpu = work->calls->gpu;
	struct view *in = work->views;

	for (int i = 0; i < INPUTS; i++) {
		int isNeeded = i == IN_X || i == IN_INDEX;

		if (isNeeded ? needed(&in[i], objects[i], inputNames[i], gpu)
			     : viewFill(&in[i], objects[i], inputNames[i], gpu))
			return -1;
	}
	if (checkTwoDimensions(&in[IN_X], &in[IN_INDEX]) ||
	    viewNeedRows(&in[IN_X], inputNames[IN_X], gpu) ||
	    viewNeedContiguous(&in[IN_SCALES], inputNames[IN_SCALES], gpu) ||
	    viewNeedContiguous(&in[IN_INDEX], inputNames[IN_INDEX], gpu) ||
	    viewNeedContiguous(&in[IN_WEIGHTS], inputNames[IN_WEIGHTS], gpu))
		return -1;
	if (in[IN_SCALES].tensor.type == ginEpI32)
		in[IN_SCALES].tensor.type = ginEpUe8m0x4; /* four exponents in a word */
	return 0;
}

/*
 * The outputs: `out` has OUTPUTS entries, each a tensor, None, or a function without arguments that
 * makes the tensor. A new tuple of tensors and None; NULL with an exception.
 */
static PyObject *outputsOf(PyObject *out)
{
	PyObject *made = PyTuple_New(OUTPUTS);

	for (Py_ssize_t i = 0; made && i < OUTPUTS; i++) {
		PyObject *entry = PyTuple_GetItem(out, i);

		if (!entry) {
			Py_CLEAR(made);
			break;
		}
		if (PyCallable_Check(entry))
			entry = PyObject_CallObject(entry, NULL);
		else
			Py_INCREF(entry);
		if (!entry)
			Py_CLEAR(made);
		else
			PyTuple_SetItem(made, i, entry);
	}
	return made;
}

static int viewOutputs(struct work *work, PyObject *made, uint32_t scaleKind)
{
	struct view *out = work->views + INPUTS;

	for (int i = 0; i < OUTPUTS; i++)
		if (viewFill(&out[i], PyTuple_GetItem(made, i), outputNames[i], work->calls->gpu))
			return -1;
	if (out[OUT_SCALES].object && scaleKind == GIN_EP_SCALE_UE8M0)
		out[OUT_SCALES].tensor.type = ginEpUe8m0x4;
	return checkHandle(work->calls, &out[OUT_HANDLE]);
}

static void dispatchArgs(struct work *work)
{
	const struct view *in = work->views, *out = in + INPUTS;
	ginEpDispatchArgs_t *args = &work->args.dispatch;

	args->hidden = (uint32_t)in[IN_X].tensor.size[1];
	if (args->rows == GIN_EP_ROWS_NVF4 && in[IN_X].tensor.type != ginEpBf16)
		args->hidden *= 2;
	args->handle = out[OUT_HANDLE].tensor.data;
	args->x = in[IN_X].tensor;
	args->scales = in[IN_SCALES].tensor;
	args->topkIdx = in[IN_INDEX].tensor;
	args->topkWeights = in[IN_WEIGHTS].tensor;
	args->recvX = out[OUT_X].tensor;
	args->recvScales = out[OUT_SCALES].tensor;
	args->recvCount = out[OUT_COUNT].tensor;
	args->srcInfo = out[OUT_SOURCE].tensor;
	args->layoutRange = out[OUT_RANGE].tensor;
	args->recvTopkIdx = out[OUT_INDEX].tensor;
	args->recvTopkWeights = out[OUT_WEIGHTS].tensor;
	args->recvStats = in[IN_STATS].tensor;
	args->waitCost = in[IN_COST].tensor;
	args->xGlobalScale = in[IN_GLOBAL].tensor;
}

static int wrongCount(const char *name, Py_ssize_t count, Py_ssize_t wanted)
{
	if (count == wanted)
		return 0;
	PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd", name, wanted, count);
	return -1;
}

/* dispatch(the INPUTS, out, stream, rows, scale kind, layout, phase) */
static PyObject *callsDispatch(PyObject *self, PyObject *const *objects, Py_ssize_t count)
{
	static const ginEpDispatchArgs_t init = GIN_EP_DISPATCH_ARGS_INIT;
	struct work work = {.calls = (struct calls *)self, .isDispatch = 1, .args.dispatch = init};
	ginEpDispatchArgs_t *args = &work.args.dispatch;
	PyObject *const *rest = objects + INPUTS;
	PyObject *made = NULL, *result = NULL;
	void *stream;

	if (wrongCount("dispatch", count, INPUTS + 6) || !isNumber(rest[2], &args->rows) ||
	    !isNumber(rest[3], &args->scaleKind) || !isNumber(rest[4], &args->layout) ||
	    !isNumber(rest[5], &args->phase))
		return NULL;
	if (viewInputs(&work, objects) || !(made = outputsOf(rest[0])) ||
	    viewOutputs(&work, made, args->scaleKind) ||
	    streamOf(rest[1], &work.views[IN_X], &stream))
		goto out;
	dispatchArgs(&work);
	if (!launch(&work, stream))
		result = resultOf(&work, made, rest[1], args->phase);
out:
	Py_XDECREF(made);
	workDrop(&work);
	return result;
}

/* `make` makes rows: make((tokens, hidden)). */
static PyObject *rowsOf(PyObject *make, const struct view *index, const struct view *x)
{
	int64_t tokens = index->tensor.size[0], hidden = x->tensor.size[x->tensor.nDims - 1];

	return PyObject_CallFunction(make, "((LL))", (long long)tokens, (long long)hidden);
}

static int viewRows(struct work *work, PyObject *const *objects)
{
	static const char *const names[] = {"x",     "handle",	 "topk_idx", "topk_weights",
					    "ready", "wait_cost"};
	const int32_t gpu = work->calls->gpu;
	struct view *v = work->views;

	for (int i = ROWS_X; i <= ROWS_COST; i++)
		if (i >= ROWS_WEIGHTS ? viewFill(&v[i], objects[i], names[i], gpu)
				      : needed(&v[i], objects[i], names[i], gpu))
			return -1;
	if (!v[ROWS_X].tensor.nDims || !v[ROWS_INDEX].tensor.nDims) {
		PyErr_SetString(PyExc_ValueError, "x and topk_idx need dimensions");
		return -1;
	}
	if (checkHandle(work->calls, &v[ROWS_HANDLE]) || viewNeedRows(&v[ROWS_X], "x", gpu) ||
	    viewNeedContiguous(&v[ROWS_INDEX], "topk_idx", gpu))
		return -1;
	return viewNeedContiguous(&v[ROWS_WEIGHTS], "topk_weights", gpu);
}

static void combineArgs(struct work *work)
{
	const struct view *v = work->views;
	ginEpCombineArgs_t *args = &work->args.combine;

	args->hidden = (uint32_t)v[ROWS_X].tensor.size[v[ROWS_X].tensor.nDims - 1];
	args->handle = v[ROWS_HANDLE].tensor.data;
	args->x = v[ROWS_X].tensor;
	args->topkIdx = v[ROWS_INDEX].tensor;
	args->topkWeights = v[ROWS_WEIGHTS].tensor;
	args->out = v[ROWS_OUT].tensor;
	args->waitCost = v[ROWS_COST].tensor;
	args->ready = v[ROWS_READY].tensor;
}

/*
 * combine(x, handle, topk_idx, topk_weights, ready, wait_cost, out, make, stream, reduce, layout,
 * phase, rows of a word of ready, the value of a word whose rows are ready, SMs)
 */
static PyObject *callsCombine(PyObject *self, PyObject *const *objects, Py_ssize_t count)
{
	static const ginEpCombineArgs_t init = GIN_EP_COMBINE_ARGS_INIT;
	struct work work = {.calls = (struct calls *)self, .args.combine = init};
	ginEpCombineArgs_t *args = &work.args.combine;
	PyObject *const *rest = objects + ROWS_OUT; /* out, make, stream, numbers */
	PyObject *made = NULL, *result = NULL;
	struct view *v = work.views;
	void *stream;

	if (wrongCount("combine", count, ROWS_OUT + 9) || !isNumber(rest[3], &args->reduce) ||
	    !isNumber(rest[4], &args->layout) || !isNumber(rest[5], &args->phase) ||
	    !isNumber(rest[6], &args->readyRows) || !isNumber(rest[7], &args->readyAt) ||
	    !isNumber(rest[8], &args->sms))
		return NULL;
	if (viewRows(&work, objects))
		goto out;
	made = rest[0];
	if (made != Py_None)
		Py_INCREF(made);
	else
		made = rowsOf(rest[1], &v[ROWS_INDEX], &v[ROWS_X]);
	if (!made || viewFill(&v[ROWS_OUT], made, "out", work.calls->gpu) ||
	    streamOf(rest[2], &v[ROWS_X], &stream))
		goto out;
	combineArgs(&work);
	if (!launch(&work, stream))
		result = resultOf(&work, made, rest[2], args->phase);
out:
	Py_XDECREF(made);
	workDrop(&work);
	return result;
}

/* receive(stream): once */
static PyObject *callReceive(PyObject *self, PyObject *given)
{
	struct call *call = (struct call *)self;
	struct work *work = &call->work;
	void *stream;

	if (call->isReceived) {
		PyErr_SetString(PyExc_RuntimeError, "nothing is left to receive");
		return NULL;
	}
	if (streamOf(given, &work->views[0], &stream))
		return NULL;
	call->isReceived = 1;
	if (work->isDispatch)
		work->args.dispatch.phase = GIN_EP_RECV;
	else
		work->args.combine.phase = GIN_EP_RECV;
	if (launch(work, stream))
		return NULL;
	if (given == Py_None)
		workDrop(work);
	Py_RETURN_NONE;
}

/* Types on the heap own their type: an object that is freed gives it back. */
static void freeObject(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static void callFree(PyObject *self)
{
	struct call *call = (struct call *)self;

	workDrop(&call->work);
	Py_DECREF((PyObject *)call->work.calls);
	freeObject(self);
}

/* Calls(address of the ep, GPU or -1, bytes of a handle) */
static PyObject *callsNew(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	unsigned long long ep;
	long long bytes;
	int gpu;

	(void)keywords;
	if (!PyArg_ParseTuple(arguments, "KiL", &ep, &gpu, &bytes))
		return NULL;
	struct calls *calls = PyObject_New(struct calls, type);
	if (!calls)
		return NULL;
	calls->ep = (ginEp_t)(uintptr_t)ep;
	calls->gpu = gpu;
	calls->handleBytes = bytes;
	return (PyObject *)calls;
}

/* close(): the ep is destroyed */
static PyObject *callsClose(PyObject *self, PyObject *unused)
{
	(void)unused;
	((struct calls *)self)->ep = NULL;
	Py_RETURN_NONE;
}

static PyMethodDef callsMethods[] = {
	{"dispatch", (PyCFunction)(void (*)(void))callsDispatch, METH_FASTCALL,
	 "(x, x_scales, topk_idx, topk_weights, stats, wait_cost, x_global_scale, out, stream, "
	 "rows, scales, layout, phase) -> (outputs, Call or None)"},
	{"combine", (PyCFunction)(void (*)(void))callsCombine, METH_FASTCALL,
	 "(x, handle, topk_idx, topk_weights, out, wait_cost, make, stream, reduce, layout, phase) "
	 "-> "
	 "(out, Call or None)"},
	{"close", callsClose, METH_NOARGS, "The ep is destroyed."},
	{NULL, NULL, 0, NULL},
};

static PyMethodDef callMethods[] = {
	{"receive", callReceive, METH_O, "(stream or None): receives what was sent. Once."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot callsSlots[] = {
	{Py_tp_new, callsNew},
	{Py_tp_dealloc, freeObject},
	{Py_tp_methods, callsMethods},
	{0, NULL},
};

static PyType_Slot callSlots[] = {
	{Py_tp_dealloc, callFree},
	{Py_tp_methods, callMethods},
	{0, NULL},
};

static PyType_Spec callsSpec = {
	.name = "gin_ep._native.Calls",
	.basicsize = sizeof(struct calls),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = callsSlots,
};

static PyType_Spec callSpec = {
	.name = "gin_ep._native.Call",
	.basicsize = sizeof(struct call),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = callSlots,
};

int callsAddTypes(PyObject *module)
{
	PyObject *calls = PyType_FromSpec(&callsSpec);

	callType = (PyTypeObject *)PyType_FromSpec(&callSpec);
	if (!calls || !callType || PyModule_AddObjectRef(module, "Calls", calls))
		return -1;
	Py_DECREF(calls);
	return PyModule_AddObjectRef(module, "Call", (PyObject *)callType);
}
