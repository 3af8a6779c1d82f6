/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c - the minimum for ranks to find each other by PMIx: each rank puts 512 bytes, all ranks
 * enter one fence that collects data, and each rank gets the bytes of all ranks
 *
 *	mpirun -n N pmix FILE
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage.h"

#define BYTES 512

static void check(const char *what, pmix_status_t status)
{
	if (status != PMIX_SUCCESS)
		stageDie(what, PMIx_Error_string(status));
}

static int jobSize(const pmix_proc_t *all)
{
	pmix_value_t *value;

	check("PMIx_Get", PMIx_Get(all, PMIX_JOB_SIZE, NULL, 0, &value));
	int size = (int)value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	return size;
}

static void put(void)
{
	static char bytes[BYTES];
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {bytes, BYTES}};

	check("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "bench", &value));
	check("PMIx_Commit", PMIx_Commit());
}

static void fence(const pmix_proc_t *all)
{
	pmix_info_t info;
	bool yes = true;

	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
	check("PMIx_Fence", PMIx_Fence(all, 1, &info, 1));
}

static void get(const pmix_proc_t *me, int nRanks)
{
	pmix_value_t *value;
	pmix_proc_t peer;

	for (int r = 0; r < nRanks; r++) {
		PMIX_PROC_LOAD(&peer, me->nspace, (pmix_rank_t)r);
		check("PMIx_Get", PMIx_Get(&peer, "bench", NULL, 0, &value));
		if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size != BYTES)
			stageDie("PMIx_Get", "the value is not the one that was put");
		PMIX_VALUE_RELEASE(value);
	}
}

int main(int argc, char **argv)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
	pmix_proc_t me, all;

	if (argc != 2 || !rank || !size || atoi(size) > STAGE_RANKS)
		stageDie("usage", "mpirun -n N pmix FILE");
	struct stage s = {.shared = stageShare(argv[1]), .rank = atoi(rank), .nRanks = atoi(size)};

	stageUse(&s, "none");
	stageBegin(&s, "first");
	check("PMIx_Init", PMIx_Init(&me, NULL, 0));
	PMIX_PROC_LOAD(&all, me.nspace, PMIX_RANK_WILDCARD);
	if (jobSize(&all) != s.nRanks)
		stageDie("PMIx", "the number of ranks is not OMPI_COMM_WORLD_SIZE");
	put();
	fence(&all);
	get(&me, s.nRanks);
	stageEnd(&s);
	stageUse(&s, "first");
	stageReport(&s);
	check("PMIx_Finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
