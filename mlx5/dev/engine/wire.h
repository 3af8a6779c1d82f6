/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - packets between processes: one SOCK_SEQPACKET connection for each direction of a pair,
 * in order and without loss. Packets to the own process do not come here.
 */
#ifndef MLX5DEV_WIRE_H
#define MLX5DEV_WIRE_H

#include <stdbool.h>
#include <stdint.h>

struct packet;

void wireOpen(void);

/* False when that process is no more. */
bool wireSend(int pid, const struct packet *packet);

/* One packet that has come; false: there is none. */
bool wireReceive(struct packet *packet);

/* A process that was sent to and has ended since, or 0. */
int wireDead(void);

/*
 * Until a packet comes, wireWake() is called or the time is over (ns; negative: never). Not locked.
 */
void wireWait(int64_t timeout);
void wireWake(void);

/* wireWait() also returns for this descriptor. */
void wireWatch(int fd);

#endif
