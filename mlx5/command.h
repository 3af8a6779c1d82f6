/* SPDX-License-Identifier: BSD-3-Clause */
/* command.h - what the device's answer to a command says, from the two mailboxes */
#ifndef GIN_MLX5_COMMAND_H
#define GIN_MLX5_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* By the device. Where the kernel failed before it asked, `out` is zeros, and errno says why. */
bool commandSucceeded(const void *out);

/*
 * "CREATE_QP: bad parameter: a field has a value that it must not have (status 0x03, syndrome
 * 0x0012ab)". The syndrome is the device's own number, for those who can ask its maker. Returns
 * what snprintf() would.
 */
size_t commandText(const void *in, const void *out, char *text, size_t room);

#endif
