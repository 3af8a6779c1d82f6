/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uverbs.h - the kernel's side of /dev/infiniband/uverbsN
 *
 * Methods return 0 or an errno. They run under deviceLock(), except where noted.
 */
#ifndef MLX5DEV_UVERBS_H
#define MLX5DEV_UVERBS_H

#include "attribute.h"
#include "mlx5/dev/device/device.h"

/* Without the lock: a descriptor of device `index` is open, or closed. */
void uverbsOpened(int fd, int index);
void uverbsClosed(int fd);
bool uverbsIsOpen(int fd);

/* Without the lock: as ioctl(RDMA_VERBS_IOCTL), with errno. */
int uverbsIoctl(int fd, struct ib_uverbs_ioctl_hdr *header);
/* Without the lock: as mmap(), of doorbell pages. */
void *uverbsMmap(void *where, size_t bytes, int protection, int flags, uint64_t offset);

typedef int uverbs_method(const struct call *call);

uverbs_method uverbsGetContext, uverbsQueryPort, uverbsQueryGid, uverbsQueryGidTable,
	uverbsAsyncEvents;
uverbs_method uverbsCreateCq, uverbsDestroyCq, uverbsCreateQp, uverbsDestroyQp;
uverbs_method uverbsCreateSrq, uverbsDestroySrq;
uverbs_method uverbsRegisterDmabuf, uverbsQueryMr, uverbsDestroyMr, uverbsDestroyPd,
	uverbsDestroyAh;
uverbs_method uverbsAllocUar, uverbsDestroyUar, uverbsRegisterUmem, uverbsDestroyUmem;
uverbs_method uverbsDevxOther, uverbsDevxCreate, uverbsDevxModify, uverbsDevxQuery,
	uverbsDevxDestroy, uverbsDevxQueryEqn;
uverbs_method uverbsInvokeWrite;

/* INVOKE_WRITE's commands. */
uverbs_method legacyQueryDevice, legacyExQueryDevice, legacyQueryPort, legacyAllocPd,
	legacyDeallocPd, legacyCreateAh, legacyDestroyAh, legacyRegisterMr, legacyDeregisterMr,
	legacyCreateChannel, legacyQueryQp, legacyModifyQp, legacyQuerySrq, legacyModifySrq;

/* Destroys an object of that handle. */
int uverbsDestroy(const struct call *call, enum kind kind, uint64_t handle);

#endif
