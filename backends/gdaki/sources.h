/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sources.h - own memory that the NIC has keys of, as kernels find it by an address: ginSources
 *
 * Entries come and go while kernels run. A place that was given back is taken again only once all
 * others have been: who looks meanwhile does not see two windows in one.
 */
#ifndef GIN_GDAKI_SOURCES_H
#define GIN_GDAKI_SOURCES_H

#include <pthread.h>

#include "backends/backend.h"

enum { SOURCES_MOST = 65536 };

struct sources {
	const struct device *device;
	struct ginSources *table; /* in GPU memory; NULL: not open */
	uint8_t *taken;		  /* [SOURCES_MOST] */
	uint32_t used;		  /* as in the table */
	pthread_mutex_t lock;
};

/* The device's scope is entered for all calls. */
ginResult_t sourcesOpen(const struct device *d, struct sources *sources);
void sourcesClose(struct sources *sources);

ginResult_t sourcesAdd(struct sources *sources, const struct ginSourceEntry *entry, uint32_t *slot);
void sourcesRemove(struct sources *sources, uint32_t slot);

#endif
