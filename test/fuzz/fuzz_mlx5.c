/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_mlx5.c - bytes that an mlx5 device, or a kernel instead, has written: completions, work
 * requests, answers to commands
 *
 * Any bytes can be decoded. A text fits its room, and is whole if the room is.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "mlx5/command.h"
#include "mlx5/cqe.h"
#include "mlx5/wqe.h"

#define WQEBB 64

/* Tries a text in `room` bytes of a buffer that ends there. */
#define EXPECT_TEXT_FITS(length, call)                                                             \
	do {                                                                                       \
		char *out = malloc(room + !room);                                                  \
		EXPECT(out != NULL);                                                               \
		size_t length = call;                                                              \
		EXPECT(!room || strnlen(out, room) == (length < room ? length : room - 1));        \
		free(out);                                                                         \
	} while (0)

static void readCqe(struct fuzzInput *in, size_t room)
{
	uint8_t bytes[64];
	struct decodedCqe cqe;

	fuzzTake(in, bytes, sizeof(bytes));
	cqeDecode(bytes, &cqe);
	EXPECT(memchr(cqe.defects, '\0', sizeof(cqe.defects)) != NULL);
	EXPECT(!cqeIsBlank(&cqe) || !cqeIsError(&cqe));
	EXPECT_TEXT_FITS(length, cqeText(&cqe, ": ", out, room));
}

static void readWqe(struct fuzzInput *in, size_t room)
{
	uint32_t wqebbs = 1u << fuzzByte(in) % 6, slot = fuzzByte(in) % wqebbs;
	uint8_t *queue = malloc(wqebbs * (size_t)WQEBB);
	static struct decodedWqe wqe;

	EXPECT(queue != NULL);
	fuzzTake(in, queue, wqebbs * (size_t)WQEBB);
	wqeDecode(queue, wqebbs, slot, &wqe);
	wqeIsBlank(queue, slot);
	free(queue);
	EXPECT(memchr(wqe.defects, '\0', sizeof(wqe.defects)) != NULL);
	EXPECT(wqe.wqebbs >= 1 && wqe.locals <= WQE_LOCALS_MOST);
	EXPECT(wqe.inlinedBytes <= sizeof(wqe.inlined));
	EXPECT_TEXT_FITS(length, wqeText(&wqe, "; ", out, room));
}

static void readAnswer(struct fuzzInput *in, size_t room)
{
	uint8_t command[16], answer[16];

	fuzzTake(in, command, sizeof(command));
	fuzzTake(in, answer, sizeof(answer));
	commandSucceeded(answer);
	EXPECT_TEXT_FITS(length, commandText(command, answer, out, room));
}

static void fuzzOne(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);
	size_t room = what & 128 ? 1024 : fuzzByte(in);

	if (what % 4 == 0)
		readCqe(in, room);
	else if (what % 4 == 1)
		readAnswer(in, room);
	else
		readWqe(in, room);
}
