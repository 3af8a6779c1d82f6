/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.h - writes a sentence about a failure into `why`, of RDMA_WHY bytes; all return -1 */
#ifndef GIN_NIC_EXPLAIN_H
#define GIN_NIC_EXPLAIN_H

int explain(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends the text of `error`, and a remedy if it is about permissions or a failed device. */
int explainErrno(char *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Explains a failed command: the device's status and syndrome; or `error`, the kernel's error
 * number, if the command did not reach the device.
 */
int explainCommand(char *why, int error, const void *in, const void *out);

#endif
