/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h - the seam between the proxy and what it moves data with
 *
 * One instance for each thread of the proxy, used by that thread alone; the device's scope is
 * entered. Works may land in any order.
 */
#ifndef GIN_PROXY_TRANSPORT_H
#define GIN_PROXY_TRANSPORT_H

#include "work.h"

struct transportOps {
	const char *name;
	ginResult_t (*open)(const struct backendHost *host, void **state);

	/* Nothing is under way. */
	void (*close)(void *state);

	/*
	 * Begins to move the data of a put, putValue or get. It has landed when this returns, and
	 * work->state says so, or it is under way and comes by landed(). Any other result: it was
	 * not moved, or in part, and does not come.
	 */
	ginResult_t (*start)(void *state, struct proxyWork *work);

	/* What has been started since the last call goes on its way together. */
	void (*chain)(void *state);

	/* One that has landed, in work->result what became of it; NULL: none now. */
	struct proxyWork *(*landed)(void *state);

	/* Waits until all that is under way has landed. */
	void (*drain)(void *state);
};

extern const struct transportOps transportIpc;

#endif
