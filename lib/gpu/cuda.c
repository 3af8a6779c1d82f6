/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda.c - the CUDA driver, by dlopen */
#include "cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"

static struct cuda calls;
static const char *missing; /* why CUDA cannot be used; NULL: it can */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* 0, or -1 when the driver lacks the call. */
static int findCall(void *library, const char *symbol, void *slot)
{
	void *address = dlsym(library, symbol);

	memcpy(slot, &address, sizeof(address));
	return address ? 0 : -1;
}

static const char *findAll(void *library)
{
#define CUDA_FIND(name, symbol, args)                                                              \
	if (findCall(library, symbol, &calls.name))                                                \
		return "the CUDA driver lacks " symbol                                             \
		       ": libgin needs the driver of CUDA 12.2 or newer";
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
	return NULL;
}

static const char *initDriver(void)
{
	static char text[160];
	const char *words = "unknown error";
	int devices = 0;
	cuResult result = calls.init(0);

	if (result) {
		calls.getErrorString(result, &words);
		snprintf(text, sizeof(text), "cuInit: %s", words);
		return text;
	}
	if (calls.deviceGetCount(&devices) || !devices)
		return "the CUDA driver sees no GPU";
	return NULL;
}

static void load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	missing = library ? findAll(library) : "no CUDA driver (libcuda.so.1)";
	if (!missing)
		missing = initDriver();
}

const struct cuda *cudaLoad(const char **why)
{
	pthread_once(&once, load);
	*why = missing;
	return missing ? NULL : &calls;
}

ginResult_t cudaFail(const struct cuda *cuda, const char *what, cuResult result)
{
	const char *words = NULL;

	if (cuda->getErrorString(result, &words) || !words)
		words = "unknown error";
	return fail(ginErrorCuda, "%s: %s", what, words);
}
