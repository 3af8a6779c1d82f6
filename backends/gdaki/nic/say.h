/* SPDX-License-Identifier: BSD-3-Clause */
/* say.h - sentences about what failed; each call returns -1 */
#ifndef GIN_NIC_SAY_H
#define GIN_NIC_SAY_H

int say(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* And what `error` means, with the remedy where it is a limit or a permission. */
int sayErrno(char *why, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Of a command: the device's status and syndrome, or what the kernel says (`error`) when it has not
 * come to the device.
 */
int sayCommand(char *why, int error, const void *in, const void *out);

#endif
