/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * range.c - shows calls of the host to profilers, by NVTX, which is headers alone
 *
 * Without a tool in the process a call is two loads and two branches. Without the headers at the
 * time of the build nothing is shown.
 */
#include "range.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static nvtxDomainHandle_t domain; /* NULL: no tool is there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void openDomain(void)
{
	domain = nvtxDomainCreateA("libgin-ep");
}

int epRangeBegin(const char *name)
{
	const nvtxEventAttributes_t range = {.version = NVTX_VERSION,
					     .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					     .messageType = NVTX_MESSAGE_TYPE_ASCII,
					     .message.ascii = name};

	pthread_once(&once, openDomain);
	nvtxDomainRangePushEx(domain, &range);
	return 0;
}

void epRangeEnd(const int *range)
{
	(void)range;
	nvtxDomainRangePop(domain);
}

#else

int epRangeBegin(const char *name)
{
	(void)name;
	return 0;
}

void epRangeEnd(const int *range)
{
	(void)range;
}

#endif
