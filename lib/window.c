/* SPDX-License-Identifier: BSD-3-Clause */
/* window.c - windows, and allocating the memory for them */
#include <search.h>

#include "comm.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "window.h"

typedef ginResult_t (*allocator)(const struct device *d, size_t bytes, void **ptr);

/*
 * Begins a call that allocates memory. Without a communicator the device is found as by
 * GIN_DEVICE_AUTO, and `own` has room for it.
 */
static ginResult_t memoryEnter(ginComm_t comm, const char *call, struct device *own,
			       const struct device **d)
{
	*d = comm ? &comm->device : own;
	if (comm)
		return commEnter(comm, call);
	errorScope(call, -1);
	return deviceOpen(own, GIN_DEVICE_AUTO, 0);
}

static ginResult_t allocate(ginComm_t comm, const char *call, allocator alloc, size_t bytes,
			    void **ptr)
{
	struct deviceScope scope;
	struct device own;
	const struct device *d;
	ginResult_t result = memoryEnter(comm, call, &own, &d);

	if (result != ginSuccess)
		return result;
	if (!ptr)
		return fail(ginErrorInvalidArgument, "ptr is NULL");
	if (!bytes) {
		*ptr = NULL;
		return ginSuccess;
	}
	result = deviceEnter(d, &scope);
	if (result != ginSuccess)
		return result;
	result = alloc(d, bytes, ptr);
	deviceLeave(d, &scope);
	return result;
}

ginResult_t ginMemAlloc(ginComm_t comm, size_t bytes, void **ptr)
{
	return allocate(comm, "ginMemAlloc", memoryAlloc, bytes, ptr);
}

ginResult_t ginMemAllocHost(ginComm_t comm, size_t bytes, void **ptr)
{
	return allocate(comm, "ginMemAllocHost", memoryAllocHost, bytes, ptr);
}

ginResult_t ginMemFree(ginComm_t comm, void *ptr)
{
	struct deviceScope scope;
	struct device own;
	const struct device *d = comm ? &comm->device : &own;
	ginResult_t result = ginSuccess;

	if (comm)
		result = commEnter(comm, "ginMemFree");
	else
		errorScope("ginMemFree", -1);
	if (result != ginSuccess || !ptr)
		return result;
	if (!comm)
		result = memoryDevice(ptr, &own);
	if (result == ginSuccess)
		result = deviceEnter(d, &scope);
	if (result != ginSuccess)
		return result;
	result = memoryFree(d, ptr);
	deviceLeave(d, &scope);
	return result;
}

static ginResult_t checkArguments(const void *ptr, size_t bytes, int flags, const void *window)
{
	if (!window)
		return fail(ginErrorInvalidArgument, "window is NULL");
	if (flags & ~GIN_WINDOW_LOCAL)
		return fail(ginErrorInvalidArgument, "flags is %#x: must be 0 or GIN_WINDOW_LOCAL",
			    (unsigned)flags);
	if (bytes && !ptr)
		return fail(ginErrorInvalidArgument, "ptr is NULL with %zu bytes", bytes);
	if ((uintptr_t)ptr + bytes < (uintptr_t)ptr)
		return fail(ginErrorInvalidArgument, "ptr %p with %zu bytes wraps around", ptr,
			    bytes);
	return ginSuccess;
}

/* By the address of the table, which is the handle. */
static int compareWindows(const void *a, const void *b)
{
	const struct window *x = a, *y = b;
	uintptr_t first = (uintptr_t)x->handle.table, second = (uintptr_t)y->handle.table;

	return (first > second) - (first < second);
}

static ginResult_t addWindow(ginComm_t comm, struct window *w)
{
	pthread_mutex_lock(&comm->lock);
	w->isListed = tsearch(w, &comm->windows, compareWindows) != NULL;
	pthread_mutex_unlock(&comm->lock);
	if (!w->isListed)
		return fail(ginErrorSystem, "no memory");
	memoryHold(w->ptr, 1);
	return ginSuccess;
}

static void removeWindow(ginComm_t comm, struct window *w)
{
	pthread_mutex_lock(&comm->lock);
	tdelete(w, &comm->windows, compareWindows);
	pthread_mutex_unlock(&comm->lock);
	memoryHold(w->ptr, -1);
}

/* Bytes before a table: the addresses of a domain's ranks. */
static size_t domainBytes(int ranks)
{
	return ((size_t)ranks * sizeof(char *) + 63) / 64 * 64;
}

void windowClose(ginComm_t comm, struct window *w)
{
	if (w->isListed)
		removeWindow(comm, w);
	shareRelease(comm, &w->shared);
	if (!w->handle.table)
		return;
	deviceWrite(&comm->device, &w->handle.table->magic, NULL, sizeof(uint64_t));
	poolKeep(&comm->pool, poolWindows, (char *)w->handle.table - domainBytes(comm->domainSize),
		 w->tableBytes);
}

static void freeWindow(ginComm_t comm, struct window *w)
{
	if (!w)
		return;
	windowClose(comm, w);
	free(w);
}

char *windowAddress(ginComm_t comm, const struct window *w, int rank)
{
	if (!w->bytes[rank])
		return NULL;
	/* This rank reaches its own part whatever its route to itself is. */
	return rank == comm->rank ? w->address : shareAddress(comm, &w->shared, rank);
}

static void fillTable(ginComm_t comm, const struct window *w, struct ginWindowTable *table)
{
	struct ginWindowPeer *peers = (struct ginWindowPeer *)(table + 1);
	char **domain = (char **)table;

	*table = (struct ginWindowTable){
		.rank = (uint32_t)comm->rank,
		.nRanks = (uint32_t)comm->nRanks,
		.serial = w->serial,
		.domainFirst = (uint32_t)(comm->rank - comm->rank % comm->domainSize),
		.domainSize = (uint32_t)comm->domainSize,
		.agent = ginAgentGpu,
		.magic = GIN_WINDOW_MAGIC};
	shareDescribe(comm, &w->shared, table);
	for (int r = 0; r < comm->nRanks; r++) {
		peers[r] = (struct ginWindowPeer){.bytes = w->bytes[r],
						  .address = windowAddress(comm, w, r)};
		shareDescribePeer(comm, &w->shared, r, &peers[r]);
	}
	for (int r = 0; r < comm->domainSize; r++)
		domain[-1 - r] = peers[table->domainFirst + (uint32_t)r].address;
}

static size_t windowTableBytes(int nRanks, int domainSize)
{
	return domainBytes(domainSize) + sizeof(struct ginWindowTable) +
	       (size_t)nRanks * sizeof(struct ginWindowPeer);
}

static size_t windowBytes(int nRanks)
{
	return sizeof(struct window) + (size_t)nRanks * sizeof(uint64_t);
}

/* Shares the memory; then all ranks agree. */
void windowPlan(struct plan *plan)
{
	plan->memory[planWindow].heap += windowBytes(plan->nRanks);
	plan->memory[planWindow].device += windowTableBytes(plan->nRanks, plan->domainSize);
	sharePlan(plan, planWindow);
	planAdd(plan, (struct planExchange){planWindow, 1, 0, 0});
}

static ginResult_t makeTable(ginComm_t comm, struct window *w)
{
	const size_t before = domainBytes(comm->domainSize);
	void *at = NULL;

	w->tableBytes = windowTableBytes(comm->nRanks, comm->domainSize);
	char *bytes = calloc(1, w->tableBytes);
	if (!bytes)
		return fail(ginErrorSystem, "no memory");
	ginResult_t result = poolAllocHandle(&comm->pool, poolWindows, w->tableBytes, &at);
	if (result == ginSuccess) {
		w->handle.table = (struct ginWindowTable *)(void *)((char *)at + before);
		fillTable(comm, w, (struct ginWindowTable *)(void *)(bytes + before));
		result = deviceWrite(&comm->device, at, bytes, w->tableBytes);
	}
	free(bytes);
	return result;
}

static struct window *newWindow(ginComm_t comm, void *ptr)
{
	struct window *w = calloc(1, windowBytes(comm->nRanks));

	if (w)
		w->ptr = ptr;
	else
		fail(ginErrorSystem, "no memory");
	return w;
}

static ginResult_t publishWindow(ginComm_t comm, struct window *w)
{
	ginResult_t result = makeTable(comm, w);

	return result == ginSuccess ? addWindow(comm, w) : result;
}

/*
 * Two rounds: each rank sends its offer, then all ranks agree whether every rank can use the
 * others' parts. `w` is NULL on a rank that has already failed.
 */
static ginResult_t shareWindow(ginComm_t comm, struct window *w, ginResult_t mine, size_t bytes)
{
	static const char call[] = "ginWindowRegister";
	struct memory memory = {0};
	struct sharedMemory none;

	if (mine == ginSuccess)
		mine = memoryDescribe(&comm->device, w->ptr, bytes, &memory);
	if (mine == ginSuccess)
		w->address = memory.address;
	mine = shareMemory(comm, call, mine, &memory, SHARE_ALL, w ? &w->shared : &none,
			   w ? w->bytes : NULL);
	if (mine == ginSuccess)
		mine = publishWindow(comm, w);
	return controlAgree(&comm->control, call, mine);
}

static ginResult_t registerShared(ginComm_t comm, ginResult_t mine, void *ptr, size_t bytes,
				  struct window **out)
{
	uint64_t serial = ++comm->windowSerial; /* equal on all ranks */
	struct window *w = mine == ginSuccess ? newWindow(comm, ptr) : NULL;

	if (w)
		w->serial = serial;
	else if (mine == ginSuccess)
		mine = ginErrorSystem;
	mine = shareWindow(comm, w, mine, bytes);
	if (mine == ginSuccess)
		*out = w;
	else
		freeWindow(comm, w);
	return mine;
}

static ginResult_t makeLocal(ginComm_t comm, struct window *w, size_t bytes)
{
	struct memory memory;
	ginResult_t result = memoryDescribeLocal(&comm->device, w->ptr, bytes, &memory);

	if (result != ginSuccess)
		return result;
	w->isLocal = 1;
	w->address = memory.address;
	w->bytes[comm->rank] = bytes;
	result = shareLocal(comm, &memory, &w->shared);
	return result == ginSuccess ? publishWindow(comm, w) : result;
}

static ginResult_t registerLocal(ginComm_t comm, ginResult_t mine, void *ptr, size_t bytes,
				 struct window **out)
{
	if (mine != ginSuccess)
		return mine;
	struct window *w = newWindow(comm, ptr);
	if (!w)
		return ginErrorSystem;
	mine = makeLocal(comm, w, bytes);
	if (mine == ginSuccess)
		*out = w;
	else
		freeWindow(comm, w);
	return mine;
}

ginResult_t windowMake(ginComm_t comm, ginResult_t mine, void *ptr, size_t bytes, int isLocal,
		       struct window **out)
{
	return (isLocal ? registerLocal : registerShared)(comm, mine, ptr, bytes, out);
}

ginResult_t ginWindowRegister(ginComm_t comm, void *ptr, size_t bytes, int flags,
			      ginWindow_t *window)
{
	struct deviceScope scope;
	struct window *w = NULL;
	ginResult_t result = commEnter(comm, "ginWindowRegister");

	if (result != ginSuccess)
		return result;
	result = checkArguments(ptr, bytes, flags, window);
	ginResult_t entered = deviceEnter(&comm->device, &scope);
	if (result == ginSuccess)
		result = entered;
	uint64_t before = deadlineBegin();
	result = windowMake(comm, result, ptr, bytes, flags & GIN_WINDOW_LOCAL, &w);
	deadlineEnd(before);
	if (entered == ginSuccess)
		deviceLeave(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	*window = w->handle;
	if (!w->isLocal)
		windowsRelease(comm);
	return ginSuccess;
}

/* The caller holds the lock. NULL when the window is not registered with this communicator. */
static struct window *lookUp(ginComm_t comm, ginWindow_t window)
{
	const struct window key = {.handle = window};
	struct window *const *found = tfind(&key, &comm->windows, compareWindows);

	return found ? *found : NULL;
}

struct window *windowFind(ginComm_t comm, ginWindow_t window)
{
	struct window *w = lookUp(comm, window);

	if (w && !w->isRetired)
		return w;
	fail(ginErrorInvalidArgument, w ? "window is retired: ginWindowRetire() was called"
					: "window is not registered with this communicator");
	return NULL;
}

static struct window *findWindow(ginComm_t comm, ginWindow_t window)
{
	pthread_mutex_lock(&comm->lock);
	struct window *w = windowFind(comm, window);
	pthread_mutex_unlock(&comm->lock);
	return w;
}

static ginResult_t deregister(ginComm_t comm, struct window *w)
{
	struct deviceScope scope;
	ginResult_t result = deviceEnter(&comm->device, &scope);

	freeWindow(comm, w);
	if (result == ginSuccess)
		deviceLeave(&comm->device, &scope);
	return result;
}

/*
 * No rank unmaps a peer's part before all ranks have called this. After a failure of the
 * communicator, a rank frees what it has without waiting for the others.
 */
ginResult_t ginWindowDeregister(ginComm_t comm, ginWindow_t window)
{
	ginResult_t result = commEnter(comm, "ginWindowDeregister");

	if (result != ginSuccess)
		return result;
	struct window *w = findWindow(comm, window);
	if (w && w->isLocal)
		return deregister(comm, w);
	result = controlAgreeOn(&comm->control, "ginWindowDeregister",
				w ? ginSuccess : ginErrorInvalidArgument, w ? w->serial : 0);
	if (!w || (result != ginSuccess && controlError(&comm->control) == ginSuccess))
		return result;
	ginResult_t done = deregister(comm, w);
	if (result == ginSuccess)
		windowsRelease(comm);
	return done;
}

void windowsDrop(ginComm_t comm)
{
	while (comm->windows) /* a node of tsearch() begins with the pointer to its key */
		freeWindow(comm, *(struct window **)comm->windows);
}

void windowsFree(ginComm_t comm)
{
	windowsCloseRetired(comm);
	if (comm->windows)
		logWrite(logWarn, "ginCommDestroy() found windows that were still registered");
	windowsDrop(comm);
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
	const struct window *w = findWindow(comm, window);
	if (!w)
		return ginErrorInvalidArgument;
	*ptr = windowAddress(comm, w, peer);
	return ginSuccess;
}

ginResult_t ginWindowPointer(ginComm_t comm, ginWindow_t window, void **ptr)
{
	ginResult_t result = commEnter(comm, "ginWindowPointer");

	if (result != ginSuccess)
		return result;
	if (!ptr)
		return fail(ginErrorInvalidArgument, "ptr is NULL");
	const struct window *w = findWindow(comm, window);
	if (!w)
		return ginErrorInvalidArgument;
	*ptr = w->ptr;
	return ginSuccess;
}
