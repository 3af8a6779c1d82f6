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

/*
 * For tests, without the lock; a test finds them in the preloaded device, too. From engineHold() to
 * engineRelease() the device's clock is stopped: what the adversary delays does not begin, however
 * long the test takes. After engineStep() all that does begin has begun, by any thread.
 */
#define ENGINE_PUBLIC __attribute__((visibility("default")))
ENGINE_PUBLIC void engineHold(void);
ENGINE_PUBLIC void engineStep(void);
ENGINE_PUBLIC void engineRelease(void);

#endif
