/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver_calls.h - loads the CUDA driver and finds the calls that a library makes
 *
 * libgin.so, libgin-ep.so and libgin-nccl.so are built without the CUDA toolkit and start without a
 * driver. Each has its own list of calls and compiles this code in.
 */
#ifndef GIN_LIB_DRIVER_CALLS_H
#define GIN_LIB_DRIVER_CALLS_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct driverCall {
	const char *symbol;
	void *slot; /* the function pointer that gets the address */
	int isOptional;
};

/*
 * A row of a table of driverCall, from a row of a list X(name, symbol, args): `calls` has the
 * pointers.
 */
#define DRIVER_CALL(name, symbol, args) {symbol, &calls.name, 0},

/*
 * Fills the slots, and returns NULL, or why a call is missing. The driver is never unloaded.
 * `library` is the name of the caller's library. Calls must not overlap.
 */
static inline const char *driverCallsLoad(const char *library, const struct driverCall *calls,
					  size_t count)
{
	static char why[160];
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!driver)
		return "no CUDA driver (libcuda.so.1)";
	for (size_t i = 0; i < count; i++) {
		void *address = dlsym(driver, calls[i].symbol);
		if (!address && !calls[i].isOptional) {
			snprintf(why, sizeof(why),
				 "the CUDA driver lacks %s: %s needs the driver of CUDA 12.2 or "
				 "newer",
				 calls[i].symbol, library);
			return why;
		}
		memcpy(calls[i].slot, &address, sizeof(address));
	}
	return NULL;
}

#endif
