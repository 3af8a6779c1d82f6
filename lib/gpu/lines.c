/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.c - host memory that kernels look at while they wait
 *
 * Freeing pinned memory waits for every kernel that runs on the device, so that it is never freed:
 * lines go back to a list of the process, and chunks and their context (device.c) live as long.
 */
#include "lines.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

#define CHUNK 65536

union freeLines {
	struct hostLines lines;
	union freeLines *next;
};

static union freeLines *freeList;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ginResult_t addChunk(const struct device *d)
{
	void *chunk = NULL;
	cuResult result = d->cuda->hostAlloc(&chunk, CHUNK, cuHostPortable | cuHostMapped);

	if (result)
		return cudaFail(d->cuda, "cuMemHostAlloc", result);
	union freeLines *each = chunk;
	for (size_t i = 0; i < CHUNK / sizeof(*each); i++) {
		each[i].next = freeList;
		freeList = &each[i];
	}
	return ginSuccess;
}

static ginResult_t takePinned(const struct device *d, struct hostLines **lines)
{
	ginResult_t result = ginSuccess;

	pthread_mutex_lock(&lock);
	if (!freeList)
		result = addChunk(d);
	if (result == ginSuccess) {
		*lines = &freeList->lines;
		freeList = freeList->next;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

ginResult_t linesAlloc(const struct device *d, struct hostLines **lines)
{
	ginResult_t result = ginSuccess;

	if (d->cuda)
		result = takePinned(d, lines);
	else
		*lines = aligned_alloc(64, sizeof(**lines));
	if (result == ginSuccess && !*lines)
		result = fail(ginErrorSystem, "no memory");
	if (result == ginSuccess)
		memset(*lines, 0, sizeof(**lines));
	return result;
}

void linesFree(const struct device *d, struct hostLines *lines)
{
	union freeLines *back = (union freeLines *)lines;

	if (!d->cuda || !lines) {
		free(lines);
		return;
	}
	pthread_mutex_lock(&lock);
	back->next = freeList;
	freeList = back;
	pthread_mutex_unlock(&lock);
}
