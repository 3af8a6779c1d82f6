/* SPDX-License-Identifier: BSD-3-Clause */
/* window.c - memory that ranks have registered together, and memory to register */
#include "comm.h"
#include "log.h"

struct window {
	ginWindow_t handle; /* the table that kernels read */
	size_t tableBytes;
	void *ptr;
	uint64_t *bytes; /* [nRanks] */
	uint64_t serial;
	struct shared shared;
	int held; /* counted by memoryHold */
	struct window *next;
};

ginResult_t ginMemAlloc(ginComm_t comm, size_t bytes, void **ptr)
{
	struct deviceScope scope;
	ginResult_t result = commEnter(comm, "ginMemAlloc");

	if (result != ginSuccess)
		return result;
	if (!ptr)
		return fail(ginErrorInvalidArgument, "ptr is NULL");
	if (!bytes) {
		*ptr = NULL;
		return ginSuccess;
	}
	result = deviceEnter(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	result = memoryAlloc(&comm->device, bytes, ptr);
	deviceLeave(&comm->device, &scope);
	return result;
}

ginResult_t ginMemFree(ginComm_t comm, void *ptr)
{
	struct deviceScope scope;
	ginResult_t result = commEnter(comm, "ginMemFree");

	if (result != ginSuccess || !ptr)
		return result;
	result = deviceEnter(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	result = memoryFree(&comm->device, ptr);
	deviceLeave(&comm->device, &scope);
	return result;
}

static ginResult_t checkArguments(const void *ptr, size_t bytes, int flags, const void *window)
{
	if (!window)
		return fail(ginErrorInvalidArgument, "window is NULL");
	if (flags)
		return fail(ginErrorInvalidArgument, "flags is %#x: must be 0", (unsigned)flags);
	if (bytes && !ptr)
		return fail(ginErrorInvalidArgument, "ptr is NULL with %zu bytes", bytes);
	if ((uintptr_t)ptr + bytes < (uintptr_t)ptr)
		return fail(ginErrorInvalidArgument, "ptr %p with %zu bytes wraps around", ptr,
			    bytes);
	return ginSuccess;
}

static void freeWindow(ginComm_t comm, struct window *w)
{
	if (w->held)
		memoryHold(w->ptr, -1);
	routesUnshare(comm, &w->shared);
	poolFree(&comm->pool, w->handle.table, w->tableBytes);
	free(w->bytes);
	free(w);
}

static void fillTable(ginComm_t comm, const struct window *w, struct ginWindowTable *table)
{
	struct ginWindowPeer *peers = (struct ginWindowPeer *)(table + 1);

	*table = (struct ginWindowTable){(uint32_t)comm->rank, (uint32_t)comm->nRanks, w->serial};
	for (int r = 0; r < comm->nRanks; r++) {
		peers[r].bytes = w->bytes[r];
		peers[r].address = w->bytes[r] ? routesAddress(comm, &w->shared, r) : NULL;
	}
	/* This rank's own part is a source, whatever the route to itself. */
	peers[comm->rank].address = w->bytes[comm->rank] ? w->ptr : NULL;
}

static ginResult_t makeTable(ginComm_t comm, struct window *w)
{
	void *at = NULL;

	w->tableBytes =
		sizeof(struct ginWindowTable) + (size_t)comm->nRanks * sizeof(struct ginWindowPeer);
	struct ginWindowTable *table = malloc(w->tableBytes);
	if (!table)
		return fail(ginErrorSystem, "no memory");
	ginResult_t result = poolAlloc(&comm->pool, w->tableBytes, &at);
	if (result == ginSuccess) {
		w->handle.table = at;
		fillTable(comm, w, table);
		result = deviceWrite(&comm->device, at, table, w->tableBytes);
	}
	free(table);
	return result;
}

/* Every step's failure travels to all ranks before the next one begins. */
static ginResult_t registerWindow(ginComm_t comm, struct window *w, ginResult_t mine, size_t bytes)
{
	static const char call[] = "ginWindowRegister";
	struct memory memory = {0};
	uint64_t own = bytes;

	if (mine == ginSuccess)
		mine = memoryDescribe(&comm->device, w->ptr, bytes, &memory);
	mine = controlAllgather(&comm->control, call, mine, &own, w->bytes, sizeof(own));
	if (mine == ginSuccess)
		mine = routesShare(comm, call, mine, &memory, &w->shared);
	if (mine != ginSuccess)
		return mine;
	return controlAgree(&comm->control, call, makeTable(comm, w));
}

static void addWindow(ginComm_t comm, struct window *w)
{
	memoryHold(w->ptr, 1);
	w->held = 1;
	pthread_mutex_lock(&comm->lock);
	w->next = comm->windows;
	comm->windows = w;
	pthread_mutex_unlock(&comm->lock);
}

/* A rank without memory for the record cannot even learn what the others have: that is fatal. */
static struct window *newWindow(ginComm_t comm, void *ptr)
{
	struct window *w = calloc(1, sizeof(*w));
	uint64_t serial = ++comm->windowSerial; /* the same on all ranks */

	if (w)
		w->bytes = calloc((size_t)comm->nRanks, sizeof(*w->bytes));
	if (!w || !w->bytes) {
		free(w);
		return NULL;
	}
	w->ptr = ptr;
	w->serial = serial;
	return w;
}

ginResult_t ginWindowRegister(ginComm_t comm, void *ptr, size_t bytes, int flags,
			      ginWindow_t *window)
{
	struct deviceScope scope;
	ginResult_t result = commEnter(comm, "ginWindowRegister");

	if (result != ginSuccess)
		return result;
	struct window *w = newWindow(comm, ptr);
	if (!w)
		return controlAgree(&comm->control, "ginWindowRegister",
				    fail(ginErrorSystem, "no memory"));
	result = checkArguments(ptr, bytes, flags, window);
	ginResult_t entered = deviceEnter(&comm->device, &scope);
	if (result == ginSuccess)
		result = entered;
	result = registerWindow(comm, w, result, bytes);
	if (result != ginSuccess)
		freeWindow(comm, w);
	if (entered == ginSuccess)
		deviceLeave(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	addWindow(comm, w);
	*window = w->handle;
	return ginSuccess;
}

/* The place in the list; NULL, and the error is said, when it is none of this communicator. */
static struct window **findWindow(ginComm_t comm, ginWindow_t window)
{
	for (struct window **at = &comm->windows; *at; at = &(*at)->next)
		if ((*at)->handle.table == window.table)
			return at;
	fail(ginErrorInvalidArgument, "window is not registered with this communicator");
	return NULL;
}

static struct window *takeWindow(ginComm_t comm, ginWindow_t window)
{
	struct window **at = findWindow(comm, window);
	struct window *w = at ? *at : NULL;

	if (w)
		*at = w->next;
	return w;
}

/*
 * All ranks have stopped using it before any unmaps it. A communicator that has failed frees what
 * it has without asking the others.
 */
ginResult_t ginWindowDeregister(ginComm_t comm, ginWindow_t window)
{
	struct deviceScope scope;
	ginResult_t result = commEnter(comm, "ginWindowDeregister");

	if (result != ginSuccess)
		return result;
	pthread_mutex_lock(&comm->lock);
	struct window **at = findWindow(comm, window);
	ginResult_t mine = at ? ginSuccess : ginErrorInvalidArgument;
	uint64_t serial = at ? (*at)->serial : 0;
	pthread_mutex_unlock(&comm->lock);
	result = controlAgreeOn(&comm->control, "ginWindowDeregister", mine, serial);
	if (mine != ginSuccess ||
	    (result != ginSuccess && controlError(&comm->control) == ginSuccess))
		return result;
	pthread_mutex_lock(&comm->lock);
	struct window *w = takeWindow(comm, window);
	pthread_mutex_unlock(&comm->lock);
	result = deviceEnter(&comm->device, &scope);
	freeWindow(comm, w);
	if (result == ginSuccess)
		deviceLeave(&comm->device, &scope);
	return result;
}

void windowsFree(ginComm_t comm)
{
	if (comm->windows)
		logWrite(logWarn, "rank %d: windows were still registered", comm->rank);
	while (comm->windows) {
		struct window *w = comm->windows;
		comm->windows = w->next;
		freeWindow(comm, w);
	}
}

static ginResult_t peerAddress(ginComm_t comm, ginWindow_t window, int peer, void **ptr)
{
	struct window **at = findWindow(comm, window);

	if (!at)
		return ginErrorInvalidArgument;
	*ptr = (*at)->bytes[peer] ? routesAddress(comm, &(*at)->shared, peer) : NULL;
	return ginSuccess;
}

ginResult_t ginPeerPointer(ginComm_t comm, ginWindow_t window, int peer, void **ptr)
{
	ginResult_t result = commEnter(comm, "ginPeerPointer");

	if (result != ginSuccess)
		return result;
	if (!ptr)
		return fail(ginErrorInvalidArgument, "ptr is NULL");
	if (peer < 0 || peer >= comm->nRanks)
		return fail(ginErrorInvalidArgument, "peer is %d: must be 0 to %d", peer,
			    comm->nRanks - 1);
	pthread_mutex_lock(&comm->lock);
	result = peerAddress(comm, window, peer, ptr);
	pthread_mutex_unlock(&comm->lock);
	return result;
}

ginResult_t ginWindowPointer(ginComm_t comm, ginWindow_t window, void **ptr)
{
	ginResult_t result = commEnter(comm, "ginWindowPointer");

	if (result != ginSuccess)
		return result;
	if (!ptr)
		return fail(ginErrorInvalidArgument, "ptr is NULL");
	pthread_mutex_lock(&comm->lock);
	struct window **at = findWindow(comm, window);
	if (at)
		*ptr = (*at)->ptr;
	pthread_mutex_unlock(&comm->lock);
	return at ? ginSuccess : ginErrorInvalidArgument;
}
