/* SPDX-License-Identifier: BSD-3-Clause */
/* range.c - shows calls and threads to profilers, by NVTX, which is headers alone */
#include "range.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static nvtxDomainHandle_t domain; /* NULL: no tool is there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Also initializes NVTX, whose calls do that without regard to other threads. */
static void openDomain(void)
{
	domain = nvtxDomainCreateA("libgin");
}

void rangeBegin(const char *name)
{
	const nvtxEventAttributes_t range = {.version = NVTX_VERSION,
					     .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					     .messageType = NVTX_MESSAGE_TYPE_ASCII,
					     .message.ascii = name};

	pthread_once(&once, openDomain);
	nvtxDomainRangePushEx(domain, &range);
}

void rangeEnd(void)
{
	nvtxDomainRangePop(domain);
}

void rangeThread(const char *name)
{
	pthread_once(&once, openDomain);
	nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), name);
}

#else

void rangeBegin(const char *name)
{
	(void)name;
}

void rangeEnd(void)
{
}

void rangeThread(const char *name)
{
	(void)name;
}

#endif
