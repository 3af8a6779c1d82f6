/* SPDX-License-Identifier: BSD-3-Clause */
#include "capability.h"

#include <infiniband/mlx5dv.h>

#include "mlx5/command.h"
#include "mlx5/prm.h"
#include "say.h"

enum { CURRENT = 1, SIZES_4_AND_8 = 4 | 8 };

struct answer {
	uint8_t bytes[QUERY_CAP_OUT_BYTES];
};

static int ask(struct ibv_context *context, enum capabilityGroup group, struct answer *answer,
	       char *why)
{
	uint8_t in[COMMAND_BYTES] = {0};

	*answer = (struct answer){{0}};
	fieldSet(in, IN_OPCODE, COMMAND_QUERY_HCA_CAP);
	fieldSet(in, IN_OP_MOD, group << 1 | CURRENT);
	int error =
		mlx5dv_devx_general_cmd(context, in, sizeof(in), answer->bytes, sizeof(*answer));
	return error ? sayCommand(why, error, in, answer->bytes) : 0;
}

static uint32_t get(const struct answer *answer, uint32_t field)
{
	return (uint32_t)fieldGet(answer->bytes, fieldAt(QUERY_CAP_OUT, field));
}

static void general(const struct answer *a, struct capability *out)
{
	out->rc = get(a, CAP_RC);
	out->cqeVersion1 = get(a, CAP_CQE_VERSION) == 1;
	out->ignoreOverrun = get(a, CAP_CQ_OI);
	out->ethernet = get(a, CAP_PORT_TYPE);
	out->relaxedOrdering = get(a, CAP_RELAXED_ORDERING_WRITE);
	out->tsFormat = get(a, CAP_SQ_TS_FORMAT) ? QPC_TS_DEFAULT : QPC_TS_FREE_RUNNING;
	out->logDepth = get(a, CAP_LOG_MAX_QP_SZ);
	out->logQueues = get(a, CAP_LOG_MAX_QP);
}

static void atomic(const struct answer *a, struct capability *out)
{
	uint32_t plain = ATOMIC_COMPARE_SWAP | ATOMIC_FETCH_ADD;
	uint32_t masks = ATOMIC_MASKED_COMPARE_SWAP | ATOMIC_MASKED_FETCH_ADD;
	uint32_t operations = get(a, ATOMIC_OPERATIONS), sizes = get(a, ATOMIC_SIZE_QP);

	out->atomics8 = (operations & plain) == plain;
	out->masked = (operations & masks) == masks && (sizes & SIZES_4_AND_8) == SIZES_4_AND_8;
}

static void roce(const struct answer *a, struct capability *out)
{
	out->firstPort = get(a, ROCE_MIN_SRC_UDP_PORT);
	out->lastPort = get(a, ROCE_MAX_SRC_UDP_PORT);
	if (get(a, ROCE_QP_TS_FORMAT))
		out->tsFormat = QPC_TS_DEFAULT;
}

int capabilityQuery(struct ibv_context *context, struct capability *out, char *why)
{
	struct capability c = {0};
	struct answer answer;

	if (ask(context, CAP_GENERAL, &answer, why))
		return -1;
	int hasAtomics = (int)get(&answer, CAP_ATOMIC_SUPPORTED);
	general(&answer, &c);
	if (hasAtomics) {
		if (ask(context, CAP_ATOMIC, &answer, why))
			return -1;
		atomic(&answer, &c);
	}
	if (c.ethernet) {
		if (ask(context, CAP_ROCE, &answer, why))
			return -1;
		roce(&answer, &c);
	}
	*out = c;
	return 0;
}

int capabilityCheck(const struct capability *c, char *why)
{
	if (!c->rc)
		return say(why, "the device has no reliable connections");
	if (!c->cqeVersion1)
		return say(why, "the device is older than libgin can use: its completions are of "
				"version 0");
	if (!c->ignoreOverrun)
		return say(why, "the device has no completion queues without overrun checks");
	if (!c->atomics8)
		return say(why, "the device or its firmware's settings have no 8-byte atomics, "
				"which signals need");
	return 0;
}
