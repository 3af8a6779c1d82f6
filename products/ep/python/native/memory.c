/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - the memory of a window, divided among tensors
 *
 * torch.cuda.MemPool takes two C functions for its memory, which are not told whose pool it is: so
 * each window has two of its own. torch keeps what it frees, and comes here for large pieces. A
 * part for which the window has no room is memory elsewhere: rows in it are copied. Without the
 * interpreter's lock.
 */
#include "native.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define WINDOWS 64
#define STEP ((size_t)512) /* to which torch aligns tensors */

#define EXPORT __attribute__((visibility("default")))

struct part {
	char *at;
	size_t bytes;
	struct part *next;
};

static struct window {
	char *at; /* NULL: not used */
	size_t bytes;
	int isOpen;
	struct part *parts; /* that are taken, addresses ascending */
} windows[WINDOWS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The first gap that is large enough; NULL: there is none. */
static void *take(struct window *w, size_t bytes)
{
	struct part **next = &w->parts, *part;
	char *at = w->at, *const end = w->at + w->bytes;

	if (!w->isOpen || !bytes || bytes > w->bytes || !(part = malloc(sizeof(*part))))
		return NULL;
	part->bytes = (bytes + STEP - 1) / STEP * STEP;
	while (*next && (size_t)((*next)->at - at) < part->bytes) {
		at = (*next)->at + (*next)->bytes;
		next = &(*next)->next;
	}
	if (!*next && (at > end || (size_t)(end - at) < part->bytes)) {
		free(part);
		return NULL;
	}
	part->at = at;
	part->next = *next;
	*next = part;
	return at;
}

/* 0: it is no part of the window. */
static int give(struct window *w, const void *at)
{
	struct part **next = &w->parts, *part;

	while (*next && (*next)->at != at)
		next = &(*next)->next;
	if (!(part = *next))
		return 0;
	*next = part->next;
	free(part);
	return 1;
}

/* The memory of a closed window without parts, which is to be freed; else NULL. */
static void *leave(struct window *w)
{
	void *at = w->at;

	if (w->isOpen || w->parts)
		return NULL;
	w->at = NULL;
	return at;
}

static void giveBack(unsigned number, void *at)
{
	pthread_mutex_lock(&lock);
	void *unused = give(&windows[number], at) ? leave(&windows[number]) : at;
	pthread_mutex_unlock(&lock);
	if (unused)
		bound.memFree(NULL, unused);
}

static void *mallocIn(unsigned number, ssize_t bytes)
{
	pthread_mutex_lock(&lock);
	void *at = take(&windows[number], (size_t)bytes);
	pthread_mutex_unlock(&lock);
	if (!at && bound.memAlloc(NULL, (size_t)bytes, &at))
		return NULL;
	return at;
}

/* torch waits for no kernels before it frees: cudaFree() would. */
static void freeIn(unsigned number, void *at, void *stream)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*synchronize)(void *) = NULL;

	if (driver)
		*(void **)&synchronize = dlsym(driver, "cuStreamSynchronize");
	if (synchronize)
		synchronize(stream);
	giveBack(number, at);
	if (driver)
		dlclose(driver);
}

#define CALLBACKS(number)                                                                          \
	EXPORT void *gin_ep_malloc_##number(ssize_t bytes, int device, void *stream);              \
	EXPORT void *gin_ep_malloc_##number(ssize_t bytes, int device, void *stream)               \
	{                                                                                          \
		(void)device;                                                                      \
		(void)stream;                                                                      \
		return mallocIn(number, bytes);                                                    \
	}                                                                                          \
	EXPORT void gin_ep_free_##number(void *at, size_t bytes, int device, void *stream);        \
	EXPORT void gin_ep_free_##number(void *at, size_t bytes, int device, void *stream)         \
	{                                                                                          \
		(void)bytes;                                                                       \
		(void)device;                                                                      \
		freeIn(number, at, stream);                                                        \
	}

/* Numbers are octal: 64 windows. */
#define EIGHT(digit)                                                                               \
	CALLBACKS(0##digit##0)                                                                     \
	CALLBACKS(0##digit##1)                                                                     \
	CALLBACKS(0##digit##2)                                                                     \
	CALLBACKS(0##digit##3)                                                                     \
	CALLBACKS(0##digit##4)                                                                     \
	CALLBACKS(0##digit##5)                                                                     \
	CALLBACKS(0##digit##6)                                                                     \
	CALLBACKS(0##digit##7)

EIGHT(0)
EIGHT(1)
EIGHT(2)
EIGHT(3)
EIGHT(4)
EIGHT(5)
EIGHT(6)
EIGHT(7)

PyObject *memoryOpen(PyObject *self, PyObject *arguments)
{
	unsigned long long at, bytes;
	unsigned number = 0;

	(void)self;
	if (!PyArg_ParseTuple(arguments, "KK", &at, &bytes))
		return NULL;
	pthread_mutex_lock(&lock);
	while (number < WINDOWS && windows[number].at)
		number++;
	if (number < WINDOWS)
		windows[number] = (struct window){(char *)(uintptr_t)at, (size_t)bytes, 1, NULL};
	pthread_mutex_unlock(&lock);
	if (number < WINDOWS)
		return PyLong_FromUnsignedLong(number);
	return PyErr_Format(PyExc_RuntimeError,
			    "%d windows of gin_ep are open, or closed ones have tensors: close "
			    "one, or delete its tensors",
			    WINDOWS);
}

PyObject *memoryClose(PyObject *self, PyObject *arguments)
{
	unsigned number;

	(void)self;
	if (!PyArg_ParseTuple(arguments, "I", &number))
		return NULL;
	pthread_mutex_lock(&lock);
	windows[number].isOpen = 0;
	void *unused = leave(&windows[number]);
	pthread_mutex_unlock(&lock);
	if (unused)
		bound.memFree(NULL, unused);
	Py_RETURN_NONE;
}

PyObject *memoryTake(PyObject *self, PyObject *arguments)
{
	unsigned long long bytes;
	unsigned number;

	(void)self;
	if (!PyArg_ParseTuple(arguments, "IK", &number, &bytes))
		return NULL;
	pthread_mutex_lock(&lock);
	void *at = take(&windows[number], (size_t)bytes);
	pthread_mutex_unlock(&lock);
	return PyLong_FromUnsignedLongLong((uintptr_t)at);
}

PyObject *memoryGive(PyObject *self, PyObject *arguments)
{
	unsigned long long at;
	unsigned number;

	(void)self;
	if (!PyArg_ParseTuple(arguments, "IK", &number, &at))
		return NULL;
	giveBack(number, (void *)(uintptr_t)at);
	Py_RETURN_NONE;
}
