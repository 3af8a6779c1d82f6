/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_proxy_gpu.c - does the network reach GPU memory, or does it bounce? The decision at the
 * search, and its reason in the sentence of a pair
 */
/* NEEDS: libgin-weak.so */
#include "backends/proxy/network/choice/choice.h"

#include "expect.h"
#include "fake_engine.h"

static const struct identity identity;
static struct device device = {.cuda = &fakeCuda, .numaNode = -1};
static const struct backendHost host = {.nRanks = 1, .ranks = &identity, .device = &device};

static struct proxyBlob search(void)
{
	struct proxyBlob blob = {.hasNetwork = 0};
	char why[BACKEND_WHY];

	setenv("GIN_TRANSPORT", "weak", 1);
	expectThat(networkProbe(&blob, why), __FILE__, __LINE__, "%s", why);
	blob.bounces = (uint8_t)networkBounces(&device);
	EXPECT_SUCCESS(networkSearch(&host, &blob));
	EXPECT(blob.hasNetwork);
	EXPECT_EQUAL(fakeEngine.allocations, 0);
	return blob;
}

static void expectSentence(const struct proxyBlob *blob, const char *words)
{
	char why[BACKEND_WHY];
	struct proxyBlob theirs = *blob;

	theirs.networkId++;
	EXPECT(networkReaches(blob, &theirs, why));
	EXPECT_HAS(why, words);
	printf("ok: %s\n", why);
}

static void reached(const char *words)
{
	setenv("WEAK_GPU", "1", 1);
	const struct proxyBlob blob = search();

	EXPECT(blob.reachesGpu && !blob.bounces);
	expectSentence(&blob, words);
}

static void byDmabuf(void)
{
	reached("; GPU memory by dma-buf");
}

static void byAddress(void)
{
	fakeEngine.noDmabuf = 1;
	reached("; GPU memory by nvidia-peermem");
}

static void bouncing(const char *words)
{
	const struct proxyBlob blob = search();

	EXPECT(!blob.reachesGpu && blob.bounces);
	expectSentence(&blob, words);
}

static void refused(void)
{
	bouncing("; GPU memory bounces: dma-buf refused, no nvidia-peermem: WEAK_GPU is unset");
}

static void refusedAddress(void)
{
	fakeEngine.noDmabuf = 1;
	bouncing("; GPU memory bounces: no dma-buf, no nvidia-peermem: WEAK_GPU is unset");
}

static void wanted(void)
{
	setenv("WEAK_GPU", "1", 1);
	setenv("GIN_BOUNCE", "always", 1);
	bouncing("; GPU memory bounces: GIN_BOUNCE=always");
}

static void noMemory(void)
{
	setenv("WEAK_GPU", "1", 1);
	fakeEngine.isFull = 1;
	bouncing("; GPU memory bounces: ");
}

static void neither(void)
{
	setenv("GIN_BOUNCE", "never", 1);
	const struct proxyBlob blob = search();

	EXPECT(!blob.reachesGpu && !blob.bounces);
}

int main(void)
{
	expectChild("by dma-buf", byDmabuf);
	expectChild("by address", byAddress);
	expectChild("refused by the network", refused);
	expectChild("refused, without dma-buf", refusedAddress);
	expectChild("GIN_BOUNCE=always", wanted);
	expectChild("the GPU is full", noMemory);
	expectChild("GIN_BOUNCE=never", neither);
	return expectFailures != 0;
}
