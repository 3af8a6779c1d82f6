/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_device.h - NCCL's device API on libgin: the one header that kernels include
 *
 * C++17, for nvcc, and for g++ and clang++, which compile kernels for host threads
 * (gin/core/host_launch.h). Names, arguments and meaning follow NCCL's documented API from 2.28 to
 * 2.32. products/nccl/docs/ lists differences and missing calls.
 */
#ifndef GIN_COMPAT_NCCL_DEVICE_H
#define GIN_COMPAT_NCCL_DEVICE_H

#include "nccl_device/barrier.h"
#include "nccl_device/coop.h"
#include "nccl_device/core.h"
#include "nccl_device/gin.h"
#include "nccl_device/gin_barrier.h"
#include "nccl_device/lsa_barrier.h"
#include "nccl_device/ptr.h"
#include "nccl_device/reduce_copy.h"
#include "nccl_device/utility.h"

#endif
