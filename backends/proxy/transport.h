/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h - the interface between the proxy and the code that moves its data
 *
 * Each worker has one instance, used under the worker's lock with the device's scope entered. Works
 * may land in any order.
 */
#ifndef GIN_PROXY_TRANSPORT_H
#define GIN_PROXY_TRANSPORT_H

#include "work.h"

struct transportOps {
	const char *name;
	ginResult_t (*open)(const struct backendHost *host, void **state);

	/* No work is under way. */
	void (*close)(void *state);

	/*
	 * Starts a put, putValue or get. On success either the work has landed already, and
	 * work->state is workLanded, or landed() returns it later. On an error the data was not
	 * moved, or only in part, and landed() does not return the work.
	 */
	ginResult_t (*start)(void *state, struct proxyWork *work);

	/* Submits all works that were started since the last call. */
	void (*chain)(void *state);

	/* The next work that has landed or failed, as work->result says; NULL: none now. */
	struct proxyWork *(*landed)(void *state);

	/* Waits until every work under way has landed or failed. */
	void (*drain)(void *state);
};

extern const struct transportOps transportIpc;

#endif
