/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma.c - the symbol that libgin-rdma.so exports */
#include "memory.h"
#include "port.h"
#include "queues.h"

__attribute__((visibility("default"))) const struct rdma ginRdma = {
	.size = sizeof(ginRdma),
	.list = portList,
	.portOpen = portOpen,
	.portClose = portClose,
	.portDescribe = portDescribe,
	.portEvent = portEvent,
	.errorText = errorText,
	.regionOpen = regionOpen,
	.regionClose = regionClose,
	.queuesOpen = queuesOpen,
	.queuesClose = queuesClose,
	.queueMake = queueMake,
	.queueConnect = queueConnect,
	.queueFail = queueFail,
	.queueState = queueState,
	.queueRegister = queueRegister,
};
