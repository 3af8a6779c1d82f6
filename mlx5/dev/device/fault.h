/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - faults on demand, from MLX5DEV_FAULT and from the control socket; README.md has the
 * words
 */
#ifndef MLX5DEV_FAULT_H
#define MLX5DEV_FAULT_H

#include "device.h"

void faultOpen(void);

/* One word, as MLX5DEV_FAULT has them. NULL, or the error in it. */
const char *faultTake(const char *word);

/* Words that have come by the control socket. */
void faultControl(void);

enum {
	FAULT_LOST = 0xfe,	/* the work request ends, and its message does not arrive */
	FAULT_NO_ANSWER = 0xff, /* the work request never ends */
};

/* The syndrome that the next work request of qp ends with, or 0; it may put qp into error. */
uint8_t faultOfRequest(struct qp *qp);

/* Whether this doorbell is lost. */
bool faultOfDoorbell(void);

/* Whether there is no more of these. */
bool faultAtCreation(enum kind kind);

#endif
