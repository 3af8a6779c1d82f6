/* SPDX-License-Identifier: BSD-3-Clause */
/* command.h - describes the device's answer to a command */
#ifndef GIN_MLX5_COMMAND_H
#define GIN_MLX5_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Did the device execute the command? Also true if the command did not reach the device: `out` is
 * then zeros and errno has the kernel's error.
 */
bool commandSucceeded(const void *out);

/*
 * Writes, for example, "CREATE_QP: bad parameter: a field has a value that it must not have (status
 * 0x03, syndrome 0x0012ab)". `in`, `out`: the mailboxes. The vendor can explain the syndrome.
 * Returns as snprintf() does.
 */
size_t commandText(const void *in, const void *out, char *text, size_t room);

#endif
