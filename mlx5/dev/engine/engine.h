/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - which queue pair does something next, and the thread that waits for packets and times
 */
#ifndef MLX5DEV_ENGINE_H
#define MLX5DEV_ENGINE_H

#include "mlx5/dev/device/device.h"

/* Has something to do now, or at a time. */
void engineWake(struct qp *qp);
void engineWakeAt(struct qp *qp, uint64_t when);
void engineForget(struct qp *qp);

/* Until there is nothing to do at this time. */
void engineRun(void);

/* From a program's thread that is not the device's: and the device's thread takes what is left. */
void engineRunHere(void);

#endif
