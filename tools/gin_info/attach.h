/* SPDX-License-Identifier: BSD-3-Clause */
/* attach.h - the answers to gin_info --attach */
#ifndef GIN_INFO_ATTACH_H
#define GIN_INFO_ATTACH_H

#include "gin_info.h"

/* A communicator in a process: a rank. */
struct attached {
	int fd, pid;
	unsigned number; /* of its socket in the process */
	char *text;	 /* what has arrived; NUL-terminated */
	size_t bytes;
	unsigned long long name; /* of the communicator */
	int rank, nRanks;	 /* -1: no answer */
	int isKept;
	char host[64];
};

struct attachedAll {
	struct attached *of;
	unsigned count;
};

/* metrics.c: the text format of Prometheus. */
void metricsPrint(const struct attachedAll *all);

#endif
