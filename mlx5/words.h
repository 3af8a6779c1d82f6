/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.h - what mlx5's numbers mean
 *
 * Names are those of the hardware's manual and headers. Texts are half a sentence, to stand behind
 * what they happened to; of numbers that are not known they say so.
 */
#ifndef GIN_MLX5_WORDS_H
#define GIN_MLX5_WORDS_H

/* "RDMA_WRITE"; NULL: there is no such opcode. */
const char *wqeOpcodeName(unsigned opcode);

/* "REQ_ERR"; NULL: there is no such opcode. */
const char *cqeOpcodeName(unsigned opcode);

/* "CREATE_QP"; NULL: not one that libgin uses. */
const char *commandName(unsigned opcode);

/* Of a CQE that reports an error: why the WQE failed. NULL: there is no such syndrome. */
const char *syndromeText(unsigned syndrome);

/* The first byte of a command's answer. */
const char *commandStatusText(unsigned status);

/* enum ibv_event_type: what ibv_get_async_event() reports. */
const char *verbsEventText(unsigned event);

/* Events by the device's own numbers, as those of objects that were made by DEVX are. */
const char *deviceEventText(unsigned event);

#endif
