/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h - what a test sets and sees of the driver in driver.c */
#ifndef GIN_SYMM_TEST_FAKE_DRIVER_H
#define GIN_SYMM_TEST_FAKE_DRIVER_H

#include "products/symm/kernels/call.h"

#ifdef __cplusplus
extern "C" {
#endif

extern void (*fakeKernel)(const struct symmCall *call);
int fakeSyncs(void);	  /* how often a call has waited for a stream or the device */
void fakeCapture(int is); /* streams are being captured */
void fakeRefuse(int is);  /* the driver clears no memory for this thread */

#ifdef __cplusplus
}
#endif

#endif
