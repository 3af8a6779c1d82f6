/* SPDX-License-Identifier: BSD-3-Clause */
/* window.h - a window, for the files window*.c and comm_shrink.c */
#ifndef LIBGIN_WINDOW_H
#define LIBGIN_WINDOW_H

#include "comm.h"
#include "share.h"

/*
 * Touched by the calls of the communicator, one at a time. Any thread may call ginWindowRetire():
 * listed windows are found under comm->lock, and `isRetired` to `next` change under it.
 */
struct window {
	ginWindow_t handle; /* the table that kernels read */
	size_t tableBytes;
	void *ptr;
	char *address;	 /* of `ptr`, as threads of the device use it */
	int isLocal;	 /* GIN_WINDOW_LOCAL */
	uint64_t serial; /* 0 for a local one */
	struct sharedMemory shared;
	ginWindow_t inherited; /* of the older communicator: see ginCommShrink() */
	int isListed;	       /* in comm->windows, and counted by memoryHold() */
	int isRetired;	       /* ginWindowRetire() */
	ginReleased_t released;
	void *releasedArg;
	struct window *next; /* in comm->retired, or of windows that are deregistered */
	uint64_t bytes[];    /* [nRanks] */
};

/*
 * NULL, after fail(), when the window is not registered with this communicator, or is retired. The
 * caller holds comm->lock.
 */
struct window *windowFind(ginComm_t comm, ginWindow_t window);

/*
 * Where this rank loads and stores the part of `rank`, or NULL. A local window has no parts of
 * peers.
 */
char *windowAddress(ginComm_t comm, const struct window *w, int rank);

/* Makes a window of any memory of this rank. Collective, unless it is local. */
ginResult_t windowMake(ginComm_t comm, ginResult_t mine, void *ptr, size_t bytes, int isLocal,
		       struct window **out);

/*
 * Collective over `to`, which ginCommShrink() has made of ranks of `from`: registers its windows.
 * On failure, `to` has none.
 */
ginResult_t windowsInherit(ginComm_t to, ginComm_t from);

/* Frees all but the struct. */
void windowClose(ginComm_t comm, struct window *w);

/* Closes the windows that are retired. windowsCallReleased() calls their functions later. */
void windowsCloseRetired(ginComm_t comm);

#endif
