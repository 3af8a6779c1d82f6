/* SPDX-License-Identifier: BSD-3-Clause */
/* window.c - memory, windows, and the addresses of their parts */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* A window of this process: calls without a communicator find it here. */
struct windowRecord {
	struct windowRecord *next;
	ncclWindow_t handle;
	ncclComm_t comm;
	char *ptr;
	uint64_t *known; /* the `bytes` of its entry in the table; NULL: there is none */
	int isEnding;	 /* its ncclCommWindowDeregister() is kept for later */
};

static struct windowRecord *windows;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The link to the record, or to NULL at the end. The caller holds the lock. */
static struct windowRecord **linkOf(ncclWindow_t handle)
{
	struct windowRecord **at = &windows;

	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	return at;
}

static ncclComm_t commOf(ncclWindow_t handle)
{
	pthread_mutex_lock(&lock);
	struct windowRecord *w = *linkOf(handle);
	ncclComm_t comm = w ? w->comm : NULL;
	pthread_mutex_unlock(&lock);
	return comm;
}

void ncclWindowForget(ncclWindow_t handle)
{
	pthread_mutex_lock(&lock);
	struct windowRecord **at = linkOf(handle), *w = *at;
	if (w)
		*at = w->next;
	if (w && w->known)
		*w->known = 0;
	pthread_mutex_unlock(&lock);
	free(w);
}

ncclWindow_t *ncclWindowsOf(ncclComm_t comm, size_t *count)
{
	size_t most = 0, found = 0;

	pthread_mutex_lock(&lock);
	for (struct windowRecord *w = windows; w; w = w->next)
		most += w->comm == comm;
	ncclWindow_t *all = malloc((most + 1) * sizeof(ncclWindow_t));
	for (struct windowRecord *w = windows; all && w; w = w->next)
		if (w->comm == comm)
			all[found++] = w->handle;
	pthread_mutex_unlock(&lock);
	*count = found;
	return all;
}

int ncclWindowAround(ncclComm_t comm, const void *at, size_t bytes, ginWindow_t *window,
		     size_t *offset)
{
	const uintptr_t first = (uintptr_t)at;
	int found = 0;

	pthread_mutex_lock(&lock);
	for (struct windowRecord *w = windows; w && !found; w = w->next) {
		const uintptr_t begin = (uintptr_t)w->ptr;
		found = w->comm == comm && w->known && !w->isEnding && first >= begin &&
			first - begin <= *w->known && bytes <= *w->known - (first - begin);
		if (found) {
			window->table = (struct ginWindowTable *)(void *)w->handle;
			*offset = first - begin;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Memory of ncclMemAlloc(). */
struct allocationRecord {
	struct allocationRecord *next;
	char *ptr;
	size_t bytes;
};

static struct allocationRecord *allocations;

ncclResult_t ncclMemAlloc(void **ptr, size_t bytes)
{
	struct allocationRecord *made = malloc(sizeof(*made));
	ncclResult_t result = made ? ncclFromGin(ginMemAlloc(NULL, bytes, ptr))
				   : ncclFail(ncclSystemError, "no memory");

	if (result != ncclSuccess) {
		free(made);
		return result;
	}
	*made = (struct allocationRecord){NULL, *ptr, bytes};
	pthread_mutex_lock(&lock);
	made->next = allocations;
	allocations = made;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

/* The link to the record, or to NULL at the end. The caller holds the lock. */
static struct allocationRecord **allocationAt(const char *ptr)
{
	struct allocationRecord **at = &allocations;

	while (*at && (*at)->ptr != ptr)
		at = &(*at)->next;
	return at;
}

static void forgetAllocation(const char *ptr)
{
	pthread_mutex_lock(&lock);
	struct allocationRecord **at = allocationAt(ptr), *found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&lock);
	free(found);
}

/* The communicator of a window in this memory whose deregistration is kept for later, or NULL. */
static ncclComm_t endingIn(const char *ptr)
{
	ncclComm_t comm = NULL;

	pthread_mutex_lock(&lock);
	const struct allocationRecord *a = *allocationAt(ptr);
	for (struct windowRecord *w = windows; a && w; w = w->next)
		if (w->isEnding && w->ptr >= ptr && w->ptr < ptr + a->bytes)
			comm = w->comm;
	pthread_mutex_unlock(&lock);
	return comm;
}

ncclResult_t ncclMemFree(void *ptr)
{
	const struct ending ending = {.kind = endingOfMemory, .memory = ptr};
	ncclComm_t comm = ptr ? endingIn(ptr) : NULL;
	ncclResult_t result = comm ? ncclEnd(comm, &ending) : ncclFromGin(ginMemFree(NULL, ptr));

	if (result == ncclSuccess)
		forgetAllocation(ptr);
	return result;
}

struct registerArgs {
	ncclComm_t comm;
	void *ptr;
	size_t bytes;
	ncclWindow_t *out;
};

static struct ginNcclWindows *newTable(ncclComm_t comm)
{
	struct ginNcclWindows *made = NULL;

	if (ginMemAllocHost(comm->gin, sizeof(*made), (void **)&made) == ginSuccess)
		memset(made, 0, sizeof(*made));
	return made;
}

/* The caller holds the lock. */
static struct ginNcclWindows *tablesOf(ncclComm_t comm)
{
	if (!comm->windows)
		comm->windows = newTable(comm);
	return comm->windows;
}

const struct ginNcclWindows *ncclWindowTables(ncclComm_t comm)
{
	pthread_mutex_lock(&lock);
	const struct ginNcclWindows *tables = tablesOf(comm);
	pthread_mutex_unlock(&lock);
	return tables;
}

void ncclWindowTablesFree(ncclComm_t comm)
{
	struct ginNcclWindows *next;

	for (struct ginNcclWindows *t = comm->windows; t; t = next) {
		next = (struct ginNcclWindows *)(uintptr_t)t->next;
		ginMemFree(comm->gin, t);
	}
}

/* A free entry in a table; the caller holds the lock. */
static uint64_t findFree(const struct ginNcclWindows *t)
{
	uint64_t i = 0;

	while (i < t->used && t->entry[i].bytes)
		i++;
	return i;
}

/* Makes the window known to kernels. NULL: no memory. The caller holds the lock. */
static uint64_t *enter(ncclComm_t comm, const void *ptr, size_t bytes, ncclWindow_t handle)
{
	struct ginNcclWindows *t = tablesOf(comm);
	uint64_t i = t ? findFree(t) : 0;

	while (t && i == GIN_NCCL_WINDOWS) {
		if (!t->next)
			t->next = newTable(comm);
		t = (struct ginNcclWindows *)(uintptr_t)t->next;
		i = t ? findFree(t) : 0;
	}
	if (!t)
		return NULL;
	t->entry[i].address = (uintptr_t)ptr;
	t->entry[i].window = handle;
	t->entry[i].bytes = bytes;
	if (i == t->used)
		t->used++;
	return &t->entry[i].bytes;
}

ncclResult_t ncclWindowNote(ncclComm_t comm, void *ptr, size_t bytes, ncclWindow_t handle)
{
	struct windowRecord *w = malloc(sizeof(*w));

	if (!w)
		return ncclFail(ncclSystemError, "no memory");
	*w = (struct windowRecord){.handle = handle, .comm = comm, .ptr = ptr};
	pthread_mutex_lock(&lock);
	if (bytes)
		w->known = enter(comm, ptr, bytes, handle);
	w->next = windows;
	windows = w;
	pthread_mutex_unlock(&lock);
	return bytes && !w->known ? ncclFail(ncclSystemError, "no memory") : ncclSuccess;
}

static ncclResult_t runRegister(void *args)
{
	const struct registerArgs *a = args;
	ginWindow_t window;
	ncclResult_t result = ncclEndKept(a->comm);

	if (result == ncclSuccess)
		result = ncclFromGin(ginWindowRegister(a->comm->gin, a->ptr, a->bytes, 0, &window));
	if (result != ncclSuccess)
		return result;
	result = ncclWindowNote(a->comm, a->ptr, a->bytes, (ncclWindow_t)(void *)window.table);
	if (result == ncclSuccess)
		*a->out = (ncclWindow_t)(void *)window.table;
	return result;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *ptr, size_t bytes, ncclWindow_t *window,
				    int flags)
{
	const struct registerArgs args = {comm, ptr, bytes, window};

	(void)flags;
	if (!comm || !window)
		return ncclFail(ncclInvalidArgument, "ncclCommWindowRegister: %s is NULL",
				comm ? "window" : "comm");
	return ncclGroupDo(comm, runRegister, &args, sizeof(args));
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	const struct ending ending = {.kind = endingOfWindow, .window = window};

	if (!comm)
		return ncclFail(ncclInvalidArgument, "ncclCommWindowDeregister: comm is NULL");
	pthread_mutex_lock(&lock);
	struct windowRecord *w = *linkOf(window);
	int isKnown = w && w->comm == comm && !w->isEnding;
	if (isKnown)
		w->isEnding = 1;
	pthread_mutex_unlock(&lock);
	if (!isKnown)
		return ncclFail(ncclInvalidArgument,
				"ncclCommWindowDeregister: the window is not registered with this "
				"communicator");
	return ncclEnd(comm, &ending);
}

/* libgin has nothing to register for collectives. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *ptr, size_t bytes, void **handle)
{
	(void)ptr;
	(void)bytes;
	if (!comm || !handle)
		return ncclFail(ncclInvalidArgument, "ncclCommRegister: %s is NULL",
				comm ? "handle" : "comm");
	*handle = NULL;
	return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	(void)comm;
	(void)handle;
	return ncclSuccess;
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr)
{
	const ginWindow_t own = {(struct ginWindowTable *)(void *)window};

	if (!comm || !ptr)
		return ncclFail(ncclInvalidArgument, "ncclWinGetUserPtr: %s is NULL",
				comm ? "ptr" : "comm");
	return ncclFromGin(ginWindowPointer(comm->gin, own, ptr));
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **pointer)
{
	const ginWindow_t own = {(struct ginWindowTable *)(void *)window};
	ncclComm_t comm = commOf(window);
	void *base = NULL;

	if (!comm || !pointer)
		return ncclFail(ncclInvalidArgument, "ncclGetPeerDevicePointer: the window is not "
						     "registered, or pointer is NULL");
	ncclResult_t result = ncclFromGin(ginPeerPointer(comm->gin, own, peer, &base));
	if (result == ncclSuccess)
		*pointer = base ? (char *)base + offset : NULL;
	return result;
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
				     void **pointer)
{
	ncclComm_t comm = commOf(window);

	if (comm && (lsaRank < 0 || lsaRank >= comm->domainSize))
		return ncclFail(ncclInvalidArgument,
				"ncclGetLsaDevicePointer: lsaRank is %d: must be 0 to %d", lsaRank,
				comm->domainSize - 1);
	const int first = comm ? comm->rank / comm->domainSize * comm->domainSize : 0;
	return ncclGetPeerDevicePointer(window, offset, first + lsaRank, pointer);
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **pointer)
{
	(void)window;
	(void)offset;
	(void)pointer;
	return ncclFail(ncclInvalidUsage,
			"ncclGetLsaMultimemDevicePointer: libgin has no multicast memory");
}

ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
					  ncclMultimemHandle_t multimem, void **pointer)
{
	(void)multimem;
	return ncclGetLsaMultimemDevicePointer(window, offset, pointer);
}
