/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus.h - on which CPUs the threads run that work for a GPU */
#ifndef GIN_LIB_CPUS_H
#define GIN_LIB_CPUS_H

#include <sched.h>

#include "device.h"

/*
 * The CPUs closest to a PCI device or, when its bus id is unknown, the CPUs of a NUMA node (-1:
 * none). Returns 0 when neither is known; *why is then a static sentence that says why. Takes
 * milliseconds.
 */
int cpusNear(const char *busId, int numaNode, cpu_set_t *cpus, const char **why);

/*
 * Chooses, from the CPUs `own`, the CPUs for threads that work for the device, by
 * GIN_PROXY_AFFINITY. Never empty. If they are not the CPUs closest to the GPU, logs the reason.
 */
void cpusChoose(const struct device *d, const cpu_set_t *own, cpu_set_t *cpus);

/*
 * Chooses the CPUs of one thread from `among`, and counts the thread there. `number` should differ
 * between the threads of all processes of this host.
 */
void cpusPick(const cpu_set_t *among, unsigned number, cpu_set_t *cpus);

/* The thread that has CPUs of cpusPick() has ended. An empty set: it has none. */
void cpusLeave(const cpu_set_t *cpus);

/* "0-3,8"; cut at the end when `bytes` is too small. */
void cpusFormat(const cpu_set_t *cpus, char *out, size_t bytes);

#endif
