/* SPDX-License-Identifier: BSD-3-Clause */
/* backends.c - the table of backends, and its queries without a communicator */
#include "backends.h"

#include <string.h>

#include "lib/base/info.h"

#define ROW_ADDRESS(ops, name) &ops,
#define ROW_CHOICE(ops, name) "|" name

const struct backendOps *const backendsTable[BACKENDS_COUNT] = {&backendDirect,
								BACKENDS_NETWORK_ROWS(ROW_ADDRESS)};

const char paramBackendChoices[] = "auto" BACKENDS_NETWORK_ROWS(ROW_CHOICE);

int backendsFind(const char *name)
{
	for (int b = BACKENDS_NETWORK; b < BACKENDS_COUNT; b++)
		if (!strcmp(name, backendsTable[b]->name))
			return b;
	return 0;
}

/* The ports of NICs, as listed by the first backend that uses NICs. */
ginResult_t ginNicQuery(int index, ginNicInfo_t *info)
{
	ginNicInfo_t filled = GIN_NIC_INFO_INIT;
	int b = BACKENDS_NETWORK;

	errorScope("ginNicQuery", -1);
	if (index < 0)
		return fail(ginErrorInvalidArgument, "index is %d: must be 0 or more", index);
	while (b < BACKENDS_LAST && !backendsTable[b]->nic)
		b++;
	if (!backendsTable[b]->nic)
		return fail(ginErrorUnsupported, "no backend of this libgin uses NICs");
	ginResult_t result = backendsTable[b]->nic(index, &filled);
	return result == ginSuccess ? infoGive(&filled, sizeof(filled), "GIN_NIC_INFO_INIT", info)
				    : result;
}
