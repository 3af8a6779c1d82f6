/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command.h - commands in mailboxes, as the device's firmware takes them
 */
#ifndef MLX5DEV_COMMAND_H
#define MLX5DEV_COMMAND_H

#include "mlx5/dev/device/device.h"
#include "mlx5/prm.h"

/* The meaning of this device's syndromes; hardware has other numbers. */
enum command_syndrome {
	REFUSED_LENGTH = 0x6d0001,
	REFUSED_OPCODE = 0x6d0002,
	REFUSED_UNKNOWN_BITS = 0x6d0003,
	REFUSED_NO_SUCH_OBJECT = 0x6d0004,
	REFUSED_STATE = 0x6d0005,
	REFUSED_VALUE = 0x6d0006,
	REFUSED_NO_RESOURCES = 0x6d0007,
	REFUSED_PARAM_MASK = 0x6d0008,
	REFUSED_ALIGNMENT = 0x6d0009,
	REFUSED_OUT_OF_UMEM = 0x6d000a,
};

struct command {
	struct device *device;
	int context;
	const uint8_t *in;
	size_t inBytes;
	uint8_t *out;
	size_t outBytes;
	struct object *made; /* or NULL */
};

/* Executes it and fills in `out`, status and syndrome too; whether it was taken. */
bool commandRun(struct command *command);

/* False, with that in `out`. */
bool commandRefuse(struct command *command, enum commandStatus status,
		   enum command_syndrome syndrome, const char *reason);

/* The fields of a structure that begins at `base`. */
struct known {
	uint32_t base;
	const uint32_t *fields;
	size_t count;
};

/* Refused where a bit is set that is in none of them. */
bool commandOnly(struct command *command, const struct known *known, size_t count);

bool commandQueryHcaCap(struct command *command);
bool commandQueryRoceAddress(struct command *command);
bool commandCreateCq(struct command *command);
bool commandQueryCq(struct command *command);
bool commandCreateQp(struct command *command);
bool commandModifyQp(struct command *command);
bool commandQueryQp(struct command *command);

/* An address in a umem that has `bytes` there, aligned; 0: refused. */
uint64_t commandUmem(struct command *command, uint32_t id, uint64_t offset, uint64_t bytes,
		     uint64_t alignment, struct object **umem);

#endif
