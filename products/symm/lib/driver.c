/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - the CUDA driver, by dlopen */
#include "driver.h"

#include <pthread.h>

#include "lib/gpu/driver_calls.h"

static struct symmDriver calls;
static const char *missing; /* NULL: all calls are there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	static const struct driverCall table[] = {
		SYMM_DRIVER_CALLS(DRIVER_CALL){"cuFuncLoad", &calls.funcLoad, 1}};

	missing = driverCallsLoad("libgin-symm", table, sizeof(table) / sizeof(table[0]));
	if (!missing && calls.init(0))
		missing = "the CUDA driver does not start";
}

const struct symmDriver *symmDriverLoad(const char **why)
{
	pthread_once(&once, load);
	*why = missing;
	return missing ? NULL : &calls;
}
