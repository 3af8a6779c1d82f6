/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violation.h - software broke the device's rules: one sentence, and the end of the process
 *
 * The sentence goes to stderr and to violation.PID in the device's directory, which with-device
 * prints if its command fails.
 */
#ifndef MLX5DEV_VIOLATION_H
#define MLX5DEV_VIOLATION_H

#include <stddef.h>
#include <stdint.h>

struct qp;

/* Reports the error in the work request at `index` of `qp`, and its bytes. Never returns. */
void violation(const struct qp *qp, uint32_t index, const void *bytes, size_t length,
	       const char *format, ...) __attribute__((noreturn, format(printf, 5, 6)));

/* Reports an error without a queue pair. */
void violationAlone(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The device cannot go on without memory for `what`. Never returns. */
void noMemory(const char *what) __attribute__((noreturn));

#endif
