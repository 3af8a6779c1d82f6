/* SPDX-License-Identifier: BSD-3-Clause */
#include "doorbell.h"

#include <pthread.h>
#include <stdlib.h>

struct page {
	struct page *next;
	void *at;
	unsigned users;
	int foreign; /* somebody else in this process has mapped it, and unmaps it */
};

static struct page *pages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct page **placeOf(const void *at)
{
	struct page **place = &pages;

	while (*place && (*place)->at != at)
		place = &(*place)->next;
	return place;
}

static ginResult_t refused(const struct device *d, const struct rdmaRegister *where, cuResult error)
{
	const char *text = NULL;

	if (d->cuda->getErrorString(error, &text))
		text = "an error that it has no words for";
	if (paramChoice(paramUarMap) == uarMapPlain)
		return fail(ginErrorCuda,
			    "GPU %d cannot have the NIC's doorbell register (%s) as ordinary "
			    "memory: cuMemHostRegister: %s",
			    d->ordinal, where->kind, text);
	return fail(
		ginErrorCuda,
		"GPU %d cannot have the NIC's doorbell register (%s): cuMemHostRegister: %s; the "
		"NVIDIA driver may need PeerMappingOverride=1, or try GIN_UAR_MAP=plain",
		d->ordinal, where->kind, text);
}

static ginResult_t registerPage(const struct device *d, const struct rdmaRegister *where,
				struct page *page)
{
	unsigned io = paramChoice(paramUarMap) == uarMapPlain ? 0 : cuRegisterIoMemory;
	cuResult error = d->cuda->hostRegister(where->page, RDMA_PAGE,
					       cuRegisterPortable | cuRegisterMapped | io);

	page->foreign = error == cuAlreadyRegistered;
	return error && !page->foreign ? refused(d, where, error) : ginSuccess;
}

static ginResult_t addPage(const struct device *d, const struct rdmaRegister *where)
{
	struct page *page = calloc(1, sizeof(*page));

	if (!page)
		return fail(ginErrorSystem, "no memory");
	page->at = where->page;
	ginResult_t result = registerPage(d, where, page);
	if (result != ginSuccess) {
		free(page);
		return result;
	}
	page->next = pages;
	pages = page;
	return ginSuccess;
}

static void dropPage(const struct device *d, struct page **place)
{
	struct page *page = *place;

	if (--page->users)
		return;
	if (!page->foreign)
		d->cuda->hostUnregister(page->at);
	*place = page->next;
	free(page);
}

static ginResult_t mapLocked(const struct device *d, const struct rdmaRegister *where,
			     void **kernels)
{
	cuPtr at = 0;

	if (!*placeOf(where->page)) {
		ginResult_t result = addPage(d, where);
		if (result != ginSuccess)
			return result;
	}
	struct page **place = placeOf(where->page);
	(*place)->users++;
	cuResult error = d->cuda->hostDevicePointer(&at, where->page, 0);
	if (error) {
		dropPage(d, place);
		return cudaFail(d->cuda, "cuMemHostGetDevicePointer", error);
	}
	at += (uintptr_t)where->at - (uintptr_t)where->page;
	*kernels = (void *)(uintptr_t)at;
	return ginSuccess;
}

ginResult_t doorbellMap(const struct device *d, const struct rdmaRegister *where, void **kernels)
{
	if (!d->cuda) {
		*kernels = where->at;
		return ginSuccess;
	}
	pthread_mutex_lock(&lock);
	ginResult_t result = mapLocked(d, where, kernels);
	pthread_mutex_unlock(&lock);
	return result;
}

void doorbellUnmap(const struct device *d, const struct rdmaRegister *where)
{
	if (!d->cuda)
		return;
	pthread_mutex_lock(&lock);
	dropPage(d, placeOf(where->page));
	pthread_mutex_unlock(&lock);
}
