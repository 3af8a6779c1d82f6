/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_from.c - code that ginCommSplit() and ginCommShrink() share */
#include "comm_from.h"

ginResult_t commFromOpen(const char *call, struct commFrom *from, const struct bootstrapOps *ops,
			 ginComm_t *out)
{
	const struct interrupt *interrupt = &from->comm->control.interrupt;
	const struct commStart start = {
		.device = from->comm->device.ordinal,
		.forced = from->comm->forced,
		.copyEngines = from->comm->copyEngines,
		.interrupt = {.poll = interrupt->poll, .arg = interrupt->arg},
		.bootstrap = ops,
		.wanted = {.from = from}};

	return commOpen(call, &start, out);
}

int fromOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks, char *why)
{
	(void)why;
	*rank = wanted->from->rank;
	*nRanks = wanted->from->nRanks;
	*state = wanted->from;
	return 0;
}

/* The exchange has sent the nonce of the new rank 0 in clear. */
void fromDerive(const void *state, const void *nonce, size_t bytes, uint8_t key[BOOTSTRAP_KEY])
{
	const struct commFrom *from = state;

	authDerive(from->comm->control.key, nonce, bytes, key);
}

int fromIsLocal(const void *state)
{
	const struct commFrom *from = state;

	return from->comm->ranks[from->comm->rank].local;
}
