/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - the CUDA driver, by dlopen */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static struct epDriver calls;
static const char *missing; /* NULL: all calls are there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int findCall(void *library, const char *symbol, void *slot)
{
	void *address = dlsym(library, symbol);

	memcpy(slot, &address, sizeof(address));
	return address ? 0 : -1;
}

static const char *findAll(void *library)
{
#define EP_DRIVER_FIND(name, symbol, args)                                                         \
	if (findCall(library, symbol, &calls.name))                                                \
		return "the CUDA driver lacks " symbol                                             \
		       ": libgin-ep needs the driver of CUDA 12.2 or newer";
	EP_DRIVER_CALLS(EP_DRIVER_FIND)
#undef EP_DRIVER_FIND
	(void)findCall(library, "cuFuncLoad", &calls.funcLoad);
	return NULL;
}

static void load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	missing = library ? findAll(library) : "no CUDA driver (libcuda.so.1)";
}

const struct epDriver *epDriverLoad(const char **why)
{
	pthread_once(&once, load);
	*why = missing;
	return missing ? NULL : &calls;
}
