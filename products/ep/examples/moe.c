/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * moe.c - one MoE layer on host threads: dispatch, experts, combine
 *
 *	mpirun -n 2 build/products/ep/examples/moe
 *
 * Expert e multiplies its rows by e + 1. Each token goes to two experts with weights 1/2, so the
 * layer multiplies a token by the mean of the two factors. With GPUs the tensors are in GPU memory,
 * the experts are kernels, and the last argument of the calls is their stream; nothing else
 * changes.
 */
#include <gin_ep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 6, HIDDEN = 64, TOPK = 2, EXPERTS_PER_RANK = 2 };

static void check(ginResult_t result, const char *why)
{
	if (result == ginSuccess)
		return;
	fprintf(stderr, "%s: %s\n", ginGetErrorString(result), why);
	exit(1);
}

static ginEpTensor_t tensor(void *data, int type, int64_t a, int64_t b, int64_t c)
{
	int nDims = c ? 3 : 2;
	ginEpTensor_t t = {data, type, nDims, {a, b, c, 0}, {c ? b * c : b, c ? c : 1, 1, 0}};

	return t;
}

static uint16_t toBf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)(bits >> 16); /* the values of this program need no rounding */
}

static float fromBf16(uint16_t value)
{
	uint32_t bits = (uint32_t)value << 16;
	float out;

	memcpy(&out, &bits, sizeof(out));
	return out;
}

/* The experts of this rank: row by row, `count` rows of each. */
static void runExperts(const ginEpInfo_t *info, const int32_t *count, uint16_t *rows)
{
	for (uint32_t e = 0; e < info->localExperts; e++)
		for (size_t i = 0; i < (size_t)count[e] * HIDDEN; i++) {
			uint16_t *x = rows + (size_t)e * info->recvRows * HIDDEN + i;

			*x = toBf16(fromBf16(*x) * (float)(info->firstExpert + e + 1));
		}
}

int main(void)
{
	ginConfig_t device = GIN_CONFIG_INIT;
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	ginEpDispatchArgs_t dispatch = GIN_EP_DISPATCH_ARGS_INIT;
	ginEpCombineArgs_t combine = GIN_EP_COMBINE_ARGS_INIT;
	static _Alignas(16) uint16_t x[TOKENS][HIDDEN], out[TOKENS][HIDDEN];
	int32_t experts[TOKENS][TOPK];
	float weights[TOKENS][TOPK];
	ginComm_t comm;
	ginEp_t ep;
	int ranks;

	device.device = GIN_DEVICE_NONE;
	check(ginCommInit(&device, &comm), ginGetLastError());
	check(ginCommSize(comm, &ranks), ginGetLastError());
	config.experts = (uint32_t)ranks * EXPERTS_PER_RANK;
	config.topk = TOPK;
	config.hidden = HIDDEN;
	config.maxTokens = TOKENS;
	check(ginEpCreate(comm, &config, &ep), ginEpGetLastError());
	check(ginEpQuery(ep, &info), ginEpGetLastError());

	for (int t = 0; t < TOKENS; t++) {
		for (int h = 0; h < HIDDEN; h++)
			x[t][h] = toBf16((float)(t + 1));
		for (int k = 0; k < TOPK; k++) {
			experts[t][k] = (t + 3 * k + info.rank) % (int)config.experts;
			weights[t][k] = 1.0f / TOPK;
		}
		if (experts[t][0] == experts[t][1])
			experts[t][1] = -1; /* an expert once only */
	}
	int64_t local = info.localExperts, rows = info.recvRows;
	int32_t *count = calloc((size_t)local, sizeof(*count));
	void *handle = aligned_alloc(16, (info.handleBytes + 15) / 16 * 16);
	uint16_t *received = aligned_alloc(16, (size_t)(local * rows) * HIDDEN * 2);
	if (!count || !handle || !received)
		return 1;

	dispatch.handle = handle;
	dispatch.x = tensor(x, ginEpBf16, TOKENS, HIDDEN, 0);
	dispatch.topkIdx = tensor(experts, ginEpI32, TOKENS, TOPK, 0);
	dispatch.recvX = tensor(received, ginEpBf16, local, rows, HIDDEN);
	dispatch.recvCount = tensor(count, ginEpI32, local, 0, 0);
	dispatch.recvCount.nDims = 1;
	dispatch.recvCount.stride[0] = 1;
	check(ginEpDispatch(ep, &dispatch, NULL), ginEpGetLastError());

	runExperts(&info, count, received);

	combine.handle = handle;
	combine.x = dispatch.recvX;
	combine.topkIdx = dispatch.topkIdx;
	combine.topkWeights = tensor(weights, ginEpF32, TOKENS, TOPK, 0);
	combine.out = tensor(out, ginEpBf16, TOKENS, HIDDEN, 0);
	check(ginEpCombine(ep, &combine, NULL), ginEpGetLastError());

	for (int t = 0; t < TOKENS; t++) {
		float factor = 0;

		for (int k = 0; k < TOPK; k++)
			factor +=
				experts[t][k] < 0 ? 0 : weights[t][k] * (float)(experts[t][k] + 1);
		for (int h = 0; h < HIDDEN; h++)
			if (fromBf16(out[t][h]) != factor * (float)(t + 1))
				check(ginErrorSystem, "a wrong sum");
	}
	printf("rank %d: %d tokens went through their experts\n", info.rank, TOKENS);
	free(received);
	free(handle);
	free(count);
	check(ginEpDestroy(ep), ginEpGetLastError());
	check(ginCommDestroy(comm), ginGetLastError());
	return 0;
}
