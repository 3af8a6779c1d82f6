/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda.c - the CUDA driver, by dlopen */
#include "cuda.h"

#include <pthread.h>
#include <stdio.h>

#include "driver_calls.h"
#include "lib/base/error.h"

static struct cuda calls;
static const char *missing; /* why CUDA cannot be used; NULL: it can */
static pthread_once_t once = PTHREAD_ONCE_INIT;

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
	static const struct driverCall table[] = {CUDA_CALLS(DRIVER_CALL)};

	missing = driverCallsLoad("libgin", table, sizeof(table) / sizeof(table[0]));
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
