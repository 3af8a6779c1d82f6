/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - calls between ncclGroupStart() and ncclGroupEnd() */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* The calls of one key in a group. */
struct groupThread {
	struct groupCall *calls; /* of all keys */
	const void *key;
	pthread_t thread;
	int started;
	ncclResult_t result;
	char sentence[512];
	struct groupThread *next;
};

/*
 * A call that is kept for later. Its arguments follow. It has room for the thread of its key: the
 * end of a group allocates nothing, because other ranks already wait for its calls.
 */
struct groupCall {
	struct groupCall *next;
	const void *key;
	ncclResult_t (*run)(void *args);
	ncclResult_t (*last)(const void *key, ncclResult_t result); /* NULL: none */
	struct groupThread thread;
	max_align_t args[];
};

/* The calls of one thread. */
struct group {
	int depth;
	struct groupCall *first, **last;
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

/* The keys in their order: a list of the threads of their first calls. */
static struct groupThread *findKeys(struct groupCall *calls)
{
	struct groupThread *first = NULL;

	for (struct groupCall *c = calls; c; c = c->next) {
		struct groupThread **at = &first;
		while (*at && (*at)->key != c->key)
			at = &(*at)->next;
		if (*at)
			continue;
		c->thread = (struct groupThread){.calls = calls, .key = c->key};
		*at = &c->thread;
	}
	return first;
}

static void finishThread(struct groupThread *t, ncclResult_t *result)
{
	if (t->started)
		pthread_join(t->thread, NULL);
	if (t->result == ncclSuccess || *result != ncclSuccess)
		return;
	*result = t->result;
	if (t->sentence[0])
		ncclSetSentence(t->sentence);
}

/* Ranks of one process meet in collective calls: each key has a thread. */
static ncclResult_t runThreads(struct groupThread *first)
{
	ncclResult_t result = ncclSuccess;

	for (struct groupThread *t = first->next; t; t = t->next) {
		t->started = !pthread_create(&t->thread, NULL, threadMain, t);
		if (!t->started)
			t->result = ncclFail(ncclSystemError, "no thread for a group");
	}
	threadMain(first);
	for (struct groupThread *t = first; t; t = t->next)
		finishThread(t, &result);
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
	result = runThreads(findKeys(calls));
	while (calls) {
		struct groupCall *next = calls->next;
		free(calls);
		calls = next;
	}
	return result;
}
