/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.h - names and descriptions of mlx5's numbers
 *
 * Names are from the hardware manual and headers. Descriptions are the second half of a sentence,
 * after the object that they concern. An unknown number has a description too, unless NULL is
 * documented.
 */
#ifndef GIN_MLX5_WORDS_H
#define GIN_MLX5_WORDS_H

/* "RDMA_WRITE"; NULL: unknown opcode. */
const char *wqeOpcodeName(unsigned opcode);

/* "REQ_ERR"; NULL: unknown opcode. */
const char *cqeOpcodeName(unsigned opcode);

/* "CREATE_QP"; NULL: libgin does not use the command. */
const char *commandName(unsigned opcode);

/* Why the WQE of a CQE with error failed. NULL: unknown syndrome. */
const char *syndromeText(unsigned syndrome);

/* Status: the first byte of a command's answer. */
const char *commandStatusText(unsigned status);

/* `event`: enum ibv_event_type, from ibv_get_async_event(). */
const char *verbsEventText(unsigned event);

/* `event`: the device's number, which events of DEVX objects have. */
const char *deviceEventText(unsigned event);

#endif
