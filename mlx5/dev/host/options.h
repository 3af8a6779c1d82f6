/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h - options of the devices in the environment; README.md has the list */
#ifndef MLX5DEV_OPTIONS_H
#define MLX5DEV_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "mlx5/dev/device/device.h"

#define GIDS 8 /* entries of a port's table, at most */

/* An entry of a GID table that is not the usual one. */
struct optionGid {
	bool isSet, isEmpty;
	uint8_t bytes[16];
	uint32_t interface; /* number of the network interface */
};

struct options {
	char directory[96]; /* of the fabric: where processes meet */
	int devices;
	bool roce, atomics, relaxed;
	bool masked, narrow;	     /* masked atomics; atomics of 4 bytes */
	uint32_t mtu[DEVICES_MAX];   /* bytes; 0: 1024 on RoCE, 4096 on InfiniBand */
	uint32_t reads[DEVICES_MAX]; /* READs and atomics of a queue pair at a time */
	struct optionGid gids[DEVICES_MAX][GIDS];
	bool dmabuf, peermem; /* memory of others: by its descriptor; a GPU's by its address */
	int generation;	      /* ConnectX-6 or -7 */
	bool polling, trace;
	bool adversary, weakCqe;
	uint64_t seed;
	uint32_t slowNs; /* for each work request */
};

extern struct options options;

void optionsRead(void);

/* Each of the words between commas; NULL: none. */
void optionsWords(const char *words, void (*take)(const char *word));

/* The port's MTU, as enum ibv_mtu: 1 for 256 bytes to 5 for 4096. */
uint8_t optionsMtu(int device);

/* Traces events, with MLX5DEV_TRACE=1. */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
