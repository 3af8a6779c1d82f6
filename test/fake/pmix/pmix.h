/* SPDX-License-Identifier: BSD-3-Clause */
/* pmix.h - the part of PMIx that bootstrap/pmix.c uses, for unit_pmix.c, which has the functions */
#ifndef GIN_TEST_PMIX_H
#define GIN_TEST_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int pmix_status_t;
typedef uint32_t pmix_rank_t;

typedef struct {
	char nspace[256];
	pmix_rank_t rank;
} pmix_proc_t;

typedef struct {
	const char *key;
	const void *value;
} pmix_info_t;

typedef struct {
	int type;
	union {
		struct {
			char *bytes;
			size_t size;
		} bo;
		uint32_t uint32;
	} data;
} pmix_value_t;

typedef void (*pmix_op_cbfunc_t)(pmix_status_t status, void *arg);
typedef void (*pmix_value_cbfunc_t)(pmix_status_t status, pmix_value_t *value, void *arg);

enum {
	PMIX_SUCCESS = 0,
	PMIX_ERR_TIMEOUT = -24,
	PMIX_ERR_UNREACH = -25,
	PMIX_ERR_NOMEM = -32,
	PMIX_ERR_NOT_FOUND = -46,
	PMIX_OPERATION_SUCCEEDED = -157,
	PMIX_BYTE_OBJECT = 27,
	PMIX_BOOL = 1,
	PMIX_INT = 6,
	PMIX_GLOBAL = 3
};

#define PMIX_RANK_WILDCARD UINT32_MAX
#define PMIX_COLLECT_DATA "pmix.collect"
#define PMIX_TIMEOUT "pmix.timeout"
#define PMIX_JOB_SIZE "pmix.job.size"
#define PMIX_PROC_LOAD(p, n, r) (memcpy((p)->nspace, n, sizeof((p)->nspace)), (p)->rank = (r))
#define PMIX_INFO_LOAD(i, k, v, t) ((i)->key = (k), (i)->value = (v), (void)(t))
#define PMIX_VALUE_RELEASE(v) ((void)(v))

pmix_status_t PMIx_Init(pmix_proc_t *me, pmix_info_t *info, size_t n);
pmix_status_t PMIx_Finalize(const pmix_info_t *info, size_t n);
pmix_status_t PMIx_Put(int scope, const char *key, pmix_value_t *value);
pmix_status_t PMIx_Commit(void);
pmix_status_t PMIx_Fence_nb(const pmix_proc_t *procs, size_t nProcs, const pmix_info_t *info,
			    size_t n, pmix_op_cbfunc_t done, void *arg);
pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char *key, const pmix_info_t *info, size_t n,
		       pmix_value_t **value);
pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
			  size_t n, pmix_value_cbfunc_t done, void *arg);
const char *PMIx_Error_string(pmix_status_t status);

#endif
