/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_device.h - numbers of NCCL's backends, and the routes of libgin for which kernels have code
 */
#ifndef GIN_COMPAT_NCCL_NET_DEVICE_H
#define GIN_COMPAT_NCCL_NET_DEVICE_H

#include "gin/core/abi.h"

typedef enum {
	NCCL_NET_DEVICE_HOST = 0,
	NCCL_NET_DEVICE_UNPACK = 1,
	NCCL_NET_DEVICE_GIN_PROXY = 2,
	NCCL_NET_DEVICE_GIN_GDAKI = 3,
	NCCL_NET_DEVICE_GIN_GPI = 4,
	NCCL_NET_DEVICE_GIN_EFA_GDA = 5
} ncclNetDeviceType;

/* -DNCCL_GIN_GDAKI_ENABLE=0 leaves the code for a backend out of the kernels. */
#ifndef NCCL_GIN_PROXY_ENABLE
#define NCCL_GIN_PROXY_ENABLE 1
#endif
#ifndef NCCL_GIN_GDAKI_ENABLE
#define NCCL_GIN_GDAKI_ENABLE 1
#endif

#define NCCL_GIN_BACKEND_MASK_ALL                                                                  \
	((NCCL_GIN_PROXY_ENABLE ? 1u << NCCL_NET_DEVICE_GIN_PROXY : 0u) |                          \
	 (NCCL_GIN_GDAKI_ENABLE ? 1u << NCCL_NET_DEVICE_GIN_GDAKI : 0u))

/*
 * The routes for which kernels have code: direct, and the routes of the backends. A kernel for one
 * NVLink domain is smaller with -DGIN_NCCL_ROUTES=GIN_ROUTES_DIRECT; ncclDevCommCreate() then
 * refuses other routes.
 */
#ifndef GIN_NCCL_ROUTES
#define GIN_NCCL_ROUTES GIN_ROUTES_ALL
#endif

#define GIN_NCCL_ROUTES_OF(mask)                                                                   \
	((GIN_ROUTES_DIRECT | ((mask) >> NCCL_NET_DEVICE_GIN_PROXY & 1u ? GIN_ROUTES_PROXY : 0u) | \
	  ((mask) >> NCCL_NET_DEVICE_GIN_GDAKI & 1u ? GIN_ROUTES_GDAKI : 0u)) &                    \
	 GIN_NCCL_ROUTES)

#endif
