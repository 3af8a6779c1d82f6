/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.h - sentences about what failed; each call returns -1 */
#ifndef GIN_NIC_EXPLAIN_H
#define GIN_NIC_EXPLAIN_H

int explain(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* And what `error` means, with the remedy where it is a limit or a permission. */
int explainErrno(char *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Of a command: the device's status and syndrome, or what the kernel says (`error`) when it has not
 * come to the device.
 */
int explainCommand(char *why, int error, const void *in, const void *out);

#endif
