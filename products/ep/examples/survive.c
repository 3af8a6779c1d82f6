/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * survive.c - an MoE layer loses a rank and goes on, in the memory of its ep
 *
 *	build/products/ep/examples/survive
 *
 * Four ranks, processes of this program on host threads. Rank 2 is killed after three layers. The
 * others get ginErrorPeer, make a communicator of the survivors by ginCommShrink(), and an ep in
 * the memory of their ep by ginEpShrink(). The experts are spread over the ranks that are left: a
 * real program loads the weights of the dead rank's experts there. Expert e adds e + 1 to its rows,
 * so each token says which expert it was at.
 */
#include <gin_ep.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, EXPERTS = 12, TOKENS = 6, HIDDEN = 64, LAYERS = 3, DIES = 2 };

/* How the processes find each other. */
struct meeting {
	ginUniqueId_t id;
	int ready;
};

static void check(ginResult_t result, const char *why)
{
	if (result == ginSuccess)
		return;
	fprintf(stderr, "%s: %s\n", ginGetErrorString(result), why);
	exit(1);
}

static ginEpTensor_t tensor(void *data, int type, int64_t a, int64_t b, int64_t c)
{
	ginEpTensor_t t = {data, type, c ? 3 : 2, {a, b, c, 0}, {c ? b * c : b, c ? c : 1, 1, 0}};

	return t;
}

/* Small whole numbers are exact in bf16. */
static uint16_t toBf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

static float fromBf16(uint16_t value)
{
	uint32_t bits = (uint32_t)value << 16;
	float out;

	memcpy(&out, &bits, sizeof(out));
	return out;
}

static void runExperts(const ginEpInfo_t *info, const int32_t *count, uint16_t *rows)
{
	for (uint32_t e = 0; e < info->localExperts; e++)
		for (size_t i = 0; i < (size_t)count[e] * HIDDEN; i++) {
			uint16_t *x = rows + (size_t)e * info->recvRows * HIDDEN + i;

			*x = toBf16(fromBf16(*x) + (float)(info->firstExpert + e + 1));
		}
}

static void *memoryFor(size_t bytes)
{
	void *at = aligned_alloc(16, (bytes + 15) / 16 * 16);

	if (!at)
		exit(1);
	return at;
}

/* One layer: token t of rank r goes to one expert. The first failure is returned. */
static ginResult_t layer(ginEp_t ep)
{
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	ginEpDispatchArgs_t dispatch = GIN_EP_DISPATCH_ARGS_INIT;
	ginEpCombineArgs_t combine = GIN_EP_COMBINE_ARGS_INIT;
	static _Alignas(16) uint16_t x[TOKENS][HIDDEN], out[TOKENS][HIDDEN];
	int32_t expert[TOKENS][1];

	check(ginEpQuery(ep, &info), ginEpGetLastError());
	for (int t = 0; t < TOKENS; t++) {
		expert[t][0] = (5 * t + info.rank) % EXPERTS;
		for (int h = 0; h < HIDDEN; h++)
			x[t][h] = toBf16((float)t);
	}
	int64_t local = info.localExperts, rows = info.recvRows;
	int32_t *count = memoryFor((size_t)local * sizeof(*count));
	uint16_t *received = memoryFor((size_t)(local * rows) * HIDDEN * 2);

	dispatch.handle = combine.handle = memoryFor(info.handleBytes);
	dispatch.x = tensor(x, ginEpBf16, TOKENS, HIDDEN, 0);
	dispatch.topkIdx = combine.topkIdx = tensor(expert, ginEpI32, TOKENS, 1, 0);
	dispatch.recvX = combine.x = tensor(received, ginEpBf16, local, rows, HIDDEN);
	dispatch.recvCount = tensor(count, ginEpI32, local, 1, 0);
	dispatch.recvCount.nDims = 1;
	combine.out = tensor(out, ginEpBf16, TOKENS, HIDDEN, 0);

	ginResult_t result = ginEpDispatch(ep, &dispatch, NULL);
	if (result == ginSuccess) {
		runExperts(&info, count, received);
		result = ginEpCombine(ep, &combine, NULL);
	}
	for (int t = 0; t < TOKENS && result == ginSuccess; t++)
		if (fromBf16(out[t][0]) != (float)(t + expert[t][0] + 1))
			check(ginErrorSystem, "a wrong sum");
	free(dispatch.handle);
	free(received);
	free(count);
	return result;
}

/* Replaces the communicator and the ep. */
static void goOn(ginComm_t *comm, ginEp_t *ep, const ginEpConfig_t *config)
{
	ginComm_t rest;
	ginEp_t next;

	check(ginCommShrink(*comm, NULL, 0, &rest), ginGetLastError());
	check(ginEpShrink(*ep, rest, config, &next), ginEpGetLastError());
	ginEpDestroy(*ep);
	ginCommDestroy(*comm);
	*comm = rest;
	*ep = next;
}

static int rankMain(struct meeting *meeting, int rank)
{
	ginConfig_t device = GIN_CONFIG_INIT;
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	ginComm_t comm;
	ginEp_t ep;
	int n = 0, done, ranks;

	if (rank == 0) {
		check(ginGetUniqueId(&meeting->id), ginGetLastError());
		__atomic_store_n(&meeting->ready, 1, __ATOMIC_RELEASE);
	}
	while (!__atomic_load_n(&meeting->ready, __ATOMIC_ACQUIRE))
		usleep(1000);
	device.device = GIN_DEVICE_NONE;
	check(ginCommInitRank(&device, &meeting->id, rank, RANKS, &comm), ginGetLastError());
	config.experts = EXPERTS;
	config.topk = 1;
	config.hidden = HIDDEN;
	config.maxTokens = TOKENS;
	check(ginEpCreate(comm, &config, &ep), ginEpGetLastError());
	while (layer(ep) == ginSuccess)
		if (++n == LAYERS && rank == DIES)
			raise(SIGKILL);
	printf("rank %d: %d layers, then: %s\n", rank, n, ginEpGetLastError());
	goOn(&comm, &ep, &config);
	for (done = 0; done < LAYERS; done++)
		check(layer(ep), ginEpGetLastError());
	check(ginCommSize(comm, &ranks), ginGetLastError());
	printf("rank %d: %d layers more, with %d ranks\n", rank, done, ranks);
	check(ginEpDestroy(ep), ginEpGetLastError());
	check(ginCommDestroy(comm), ginGetLastError());
	return 0;
}

int main(void)
{
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, failed = 0;

	if (meeting == MAP_FAILED)
		return 1;
	for (int rank = 0; rank < RANKS; rank++)
		if (fork() == 0)
			exit(rankMain(meeting, rank));
	for (int rank = 0; rank < RANKS; rank++) {
		wait(&status);
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	return failed == 1 ? 0 : 1; /* the rank that was killed */
}
