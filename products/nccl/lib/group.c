/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - calls between ncclGroupStart() and ncclGroupEnd() */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* A call that is kept for later. Its arguments follow. */
struct groupCall {
	struct groupCall *next;
	const void *key;
	ncclResult_t (*run)(void *args);
	ncclResult_t (*last)(const void *key, ncclResult_t result); /* NULL: none */
	max_align_t args[];
};

/* The calls of one thread. */
struct group {
	int depth;
	struct groupCall *first, **last;
};

/* The calls of one key in a group. */
struct groupThread {
	struct groupCall *calls;
	const void *key;
	pthread_t thread;
	int started;
	ncclResult_t result;
	char sentence[512];
};

static _Thread_local struct group group;

typedef ncclResult_t runFn(void *args);
typedef ncclResult_t lastFn(const void *key, ncclResult_t result);

static ncclResult_t keepCall(const void *key, runFn *run, lastFn *last, const void *args,
			     size_t bytes)
{
	struct groupCall *call = malloc(sizeof(*call) + bytes);

	if (!call)
		return ncclFail(ncclSystemError, "no memory for a call of a group");
	*call = (struct groupCall){.key = key, .run = run, .last = last};
	memcpy(call->args, args, bytes);
	if (!group.first)
		group.last = &group.first;
	*group.last = call;
	group.last = &call->next;
	return ncclSuccess;
}

ncclResult_t ncclGroupDoLast(const void *key, runFn *run, lastFn *last, const void *args,
			     size_t bytes)
{
	max_align_t copy[(bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t)];

	if (group.depth)
		return keepCall(key, run, last, args, bytes);
	memcpy(copy, args, bytes);
	ncclResult_t result = run(copy);
	return last ? last(key, result) : result;
}

ncclResult_t ncclGroupDo(const void *key, runFn *run, const void *args, size_t bytes)
{
	return ncclGroupDoLast(key, run, NULL, args, bytes);
}

/* Runs the calls of one key up to the first that fails. */
static ncclResult_t runKey(struct groupCall *calls, const void *key)
{
	ncclResult_t result = ncclSuccess;
	lastFn *last = NULL;

	for (struct groupCall *c = calls; c; c = c->next) {
		if (c->key != key)
			continue;
		if (result == ncclSuccess)
			result = c->run(c->args);
		last = c->last ? c->last : last;
	}
	return last ? last(key, result) : result;
}

static void *threadMain(void *arg)
{
	struct groupThread *t = arg;

	t->result = runKey(t->calls, t->key);
	strncpy(t->sentence, ncclSentence(), sizeof(t->sentence) - 1);
	return NULL;
}

/* Fills in the keys in their order; returns their number. */
static int findKeys(struct groupCall *calls, struct groupThread *threads)
{
	int count = 0;

	for (struct groupCall *c = calls; c; c = c->next) {
		int k = 0;
		while (k < count && threads[k].key != c->key)
			k++;
		if (k == count)
			threads[count++] = (struct groupThread){.calls = calls, .key = c->key};
	}
	return count;
}

/* Ranks of one process meet in collective calls: each key has a thread. */
static ncclResult_t runThreads(struct groupThread *threads, int count)
{
	ncclResult_t result = ncclSuccess;

	for (int k = 1; k < count; k++)
		threads[k].started =
			!pthread_create(&threads[k].thread, NULL, threadMain, &threads[k]);
	threadMain(&threads[0]);
	for (int k = 0; k < count; k++) {
		if (threads[k].started)
			pthread_join(threads[k].thread, NULL);
		else if (k)
			threads[k].result = ncclFail(ncclSystemError, "no thread for a group");
		if (threads[k].result != ncclSuccess && result == ncclSuccess) {
			result = threads[k].result;
			if (threads[k].sentence[0])
				ncclSetSentence(threads[k].sentence);
		}
	}
	return result;
}

static ncclResult_t runGroup(struct groupCall *calls)
{
	int count = 0;

	for (struct groupCall *c = calls; c; c = c->next)
		count++;
	struct groupThread *threads = calloc((size_t)count, sizeof(*threads));
	if (!threads)
		return ncclFail(ncclSystemError, "no memory for a group");
	ncclResult_t result = runThreads(threads, findKeys(calls, threads));
	free(threads);
	return result;
}

ncclResult_t ncclGroupStart(void)
{
	group.depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	struct groupCall *calls = group.first;
	ncclResult_t result = ncclSuccess;

	if (!group.depth)
		return ncclFail(ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart()");
	if (--group.depth || !calls)
		return ncclSuccess;
	group.first = NULL;
	result = runGroup(calls);
	while (calls) {
		struct groupCall *next = calls->next;
		free(calls);
		calls = next;
	}
	return result;
}
