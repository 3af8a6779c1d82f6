/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvtx.c - a tool for NVTX, loaded by NVTX_INJECTION64_PATH: prints names of ranges and threads
 *
 * Lines on the standard error: "begin NAME", "end", "thread NAME", "domain NAME".
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static nvtxDomainHandle_t createDomain(const char *name)
{
	static int one;

	fprintf(stderr, "domain %s\n", name);
	return (nvtxDomainHandle_t)(void *)&one;
}

static int beginInDomain(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
	fprintf(stderr, "begin %s%s\n", range->message.ascii, domain ? "" : ", no domain");
	return 0;
}

static int endInDomain(nvtxDomainHandle_t domain)
{
	fprintf(stderr, "end%s\n", domain ? "" : ", no domain");
	return 0;
}

static void nameThread(uint32_t thread, const char *name)
{
	fprintf(stderr, "thread %s%s\n", name, thread ? "" : ", no number");
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getTable);

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getTable)
{
	const NvtxExportTableCallbacks *callbacks = getTable(NVTX_ETID_CALLBACKS);
	NvtxFunctionTable core, core2;
	unsigned int size, size2;

	if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) ||
	    !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size2) ||
	    size <= NVTX_CBID_CORE_NameOsThreadA || size2 <= NVTX_CBID_CORE2_DomainCreateA)
		return 0;
	*core[NVTX_CBID_CORE_NameOsThreadA] = (NvtxFunctionPointer)nameThread;
	*core2[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)createDomain;
	*core2[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)beginInDomain;
	*core2[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)endInDomain;
	return 1;
}
