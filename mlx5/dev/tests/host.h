/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - what the tests ask of a device, by mlx5dv (host_verbs.c) or from the engine that is
 * linked in (host_engine.c). What fails and need not ends the test.
 */
#ifndef MLX5DEV_TESTS_HOST_H
#define MLX5DEV_TESTS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host_object;

struct host_uar {
	uint32_t page;
	uint64_t *doorbell;
	struct host_object *object;
};

/* The first call in a process starts the device. */
void hostOpen(void);
uint32_t hostPdn(void);
/* The key, or 0. access: IBV_ACCESS_ */
uint32_t hostRegister(void *address, size_t bytes, uint64_t iova, unsigned int access);
/* In another protection domain. */
uint32_t hostRegisterElsewhere(void *address, size_t bytes, uint64_t iova, unsigned int access);
/* The umem's id, or 0. */
uint32_t hostUmem(void *address, size_t bytes);
bool hostUar(struct host_uar *uar);

/* NULL or false: refused; what the device says is in `out`. */
struct host_object *hostCreate(const void *in, size_t inBytes, void *out, size_t outBytes);
bool hostModify(struct host_object *object, const void *in, size_t inBytes, void *out,
		size_t outBytes);
bool hostQuery(struct host_object *object, const void *in, size_t inBytes, void *out,
	       size_t outBytes);
bool hostGeneral(const void *in, size_t inBytes, void *out, size_t outBytes);
void hostDestroy(struct host_object *object);

/* engineHold() and so on, of the software device. */
void hostHold(void);
void hostStep(void);
void hostRelease(void);

#endif
