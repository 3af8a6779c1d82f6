/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_memory_kind.c - which windows may lie in which memory, with a driver of this file
 *
 * The driver answers for every address as the current row says.
 */
#include <sys/mman.h>

#include "lib/base/error.h"
#include "lib/gpu/memory.h"

#include "expect.h"

#define BASE UINT64_C(0x7f0000000000)
#define SPAN 0x20000
#define OURS 1	      /* the communicator's GPU */
#define MOVED 0x40000 /* from pinned memory to its address for kernels */

struct row {
	const char *name;
	int type; /* 0: the driver does not know the address */
	int managed, ofPool, ordinal;
	int vmm;	/* -1: none, 0: not exportable, 1: exportable */
	int pageable;	/* the GPU loads any host memory */
	int noRange;	/* cuMemGetAddressRange fails; -1: it gives a range without memory */
	int kind;	/* as a window of all ranks; -1: refused */
	int local;	/* as a source it works */
	const char *no; /* words of the refusals */
	int onHost;	/* cuMemCreate on a NUMA node */
};

static const struct row rows[] = {
	{"ginMemAlloc", cuMemoryIsDevice, 0, 0, OURS, 1, 0, 0, memoryVmm, 1, "", 0},
	{"cudaMalloc", cuMemoryIsDevice, 0, 0, OURS, -1, 0, 0, memoryIpc, 1, "", 0},
	{"cudaMalloc of nowhere", cuMemoryIsDevice, 0, 0, OURS, -1, 0, 1, -1, 1,
	 "cuMemGetAddressRange", 0},
	{"cuMemCreate, no handle", cuMemoryIsDevice, 0, 0, OURS, 0, 0, 0, memoryPrivate, 1, "", 0},
	{"cudaMallocAsync", cuMemoryIsDevice, 0, 1, OURS, -1, 0, 0, memoryPrivate, 1, "", 0},
	{"cudaMallocAsync, no range", cuMemoryIsDevice, 0, 1, OURS, -1, 0, 1, memoryPrivate, 1, "",
	 0},
	{"another GPU", cuMemoryIsDevice, 0, 0, 3, 1, 1, 0, -1, 0, "is memory of GPU 3", 0},
	{"cudaMallocManaged", cuMemoryIsDevice, 1, 0, OURS, -1, 0, 0, -1, 1, "managed memory", 0},
	{"NUMA node", cuMemoryIsHost, 0, 0, -1, 1, 0, 0, memoryVmm, 1, "", 1},
	{"NUMA node, as a GPU's", cuMemoryIsDevice, 0, 0, 3, 1, 0, 0, memoryVmm, 1, "", 1},
	{"NUMA node, this GPU's number", cuMemoryIsHost, 0, 0, OURS, 1, 0, 0, memoryVmm, 1, "", 1},
	{"NUMA node, no handle", cuMemoryIsHost, 0, 0, -1, 0, 0, 0, memoryPrivate, 1, "", 1},
	{"NUMA node, another range", cuMemoryIsHost, 0, 0, -1, 1, 0, -1, memoryVmm, 1, "", 1},
	{"NUMA node, no range", cuMemoryIsHost, 0, 0, -1, 1, 0, 1, memoryVmm, 1, "", 1},
	{"cudaHostAlloc", cuMemoryIsHost, 0, 0, OURS, -1, 0, 1, -1, 1, "host memory", 0},
	{"malloc", 0, 0, 0, OURS, -1, 0, 1, -1, 0, "host memory", 0},
	{"malloc, all is loaded", 0, 0, 0, OURS, -1, 1, 1, -1, 1, "host memory", 0},
};

static const struct row *row;
static int beside;	 /* does an allocation of SPAN bytes follow? */
static int besideOnHost; /* on a NUMA node, if the row's is GPU memory; else of the GPU */

static cuResult pointerAttribute(void *out, int which, cuPtr at)
{
	cuPtr kernels = at + MOVED;

	if (!row->type)
		return 1;
	if (which == cuPointerMemoryType)
		*(unsigned *)out = (unsigned)row->type;
	else if (which == cuPointerIsManaged)
		*(unsigned char *)out = (unsigned char)row->managed;
	else if (which == cuPointerPool)
		*(void **)out = row->ofPool ? out : NULL;
	else if (which == cuPointerOrdinal)
		*(int *)out = row->ordinal;
	else if (which == cuPointerBufferId)
		*(uint64_t *)out = 77;
	else if (which == cuPointerDevicePointer && at >= BASE && at < BASE + SPAN)
		memcpy(out, &kernels, sizeof(kernels));
	else
		return 1;
	return 0;
}

static cuResult addressRange(cuPtr *base, size_t *bytes, cuPtr at)
{
	*base = beside && at >= BASE + SPAN ? BASE + SPAN : BASE;
	*bytes = SPAN;
	if (row->noRange < 0)
		*base = *bytes = 0;
	return row->noRange > 0;
}

static cuResult allocationRetain(cuAllocation *out, void *ptr)
{
	const uintptr_t at = (uintptr_t)ptr;

	*out = at >= BASE + SPAN ? 6 : 5;
	return row->vmm < 0 || at < BASE || at >= BASE + (beside ? 2 : 1) * SPAN;
}

static cuResult allocationProp(cuAllocationProp *out, cuAllocation allocation)
{
	int onHost = row->onHost ^ (allocation == 6 && besideOnHost);

	EXPECT(allocation == 5 || allocation == 6);
	out->handleTypes = row->vmm ? cuPosixFd : 0;
	out->location.type = onHost ? cuOnHostNuma : cuOnDevice;
	return 0;
}

static cuResult allocationRelease(cuAllocation allocation)
{
	EXPECT(allocation == 5 || allocation == 6);
	return 0;
}

static cuResult deviceGetAttribute(int *out, int which, cuDevice device)
{
	EXPECT_EQUAL(which, cuHasPageableAccess);
	EXPECT_EQUAL(device, OURS);
	*out = row->pageable;
	return 0;
}

static cuResult getErrorString(cuResult result, const char **out)
{
	(void)result;
	*out = "made up";
	return 0;
}

static const struct cuda driver = {.pointerAttribute = pointerAttribute,
				   .addressRange = addressRange,
				   .allocationRetain = allocationRetain,
				   .allocationProp = allocationProp,
				   .allocationRelease = allocationRelease,
				   .deviceGetAttribute = deviceGetAttribute,
				   .getErrorString = getErrorString};
static const struct device gpu = {.cuda = &driver, .ordinal = OURS, .id = OURS};

/* Does the answer depend on cuMemGetAddressRange()? Mappings are found without it. */
static int isWithoutRange(void)
{
	return row->noRange && row->vmm < 0;
}

static void *addressOf(size_t offset)
{
	return (void *)(uintptr_t)(BASE + offset);
}

static void asWindow(void)
{
	struct memory m;
	ginResult_t result = memoryDescribe(&gpu, addressOf(300), 1000, &m);

	if (row->kind < 0) {
		EXPECT(result != ginSuccess);
		EXPECT_HAS(ginGetLastError(), row->no);
		return;
	}
	EXPECT_SUCCESS(result);
	EXPECT_EQUAL(m.kind, row->kind);
	EXPECT_EQUAL(m.onHost, row->onHost);
	EXPECT_EQUAL(memoryIsGpus(&m), row->kind != memoryPrivate && !row->onHost);
	EXPECT(m.address == addressOf(300));
	EXPECT(m.base == addressOf(isWithoutRange() ? 300 : 0));
	EXPECT_EQUAL(m.id, isWithoutRange() ? 0 : 77);
	if (!isWithoutRange())
		EXPECT_FAILS(memoryDescribe(&gpu, addressOf(300), SPAN - 299, &m),
			     ginErrorInvalidArgument, "more than the one allocation");
}

static void asSource(void)
{
	struct memory m;
	int pinned = row->type == cuMemoryIsHost && !row->onHost;
	ginResult_t result = memoryDescribeLocal(&gpu, addressOf(300), 1000, &m);

	if (!row->local) {
		EXPECT_RESULT(result, ginErrorInvalidArgument);
		EXPECT_HAS(ginGetLastError(), row->type ? row->no : "cudaHostRegister()");
		return;
	}
	EXPECT_SUCCESS(result);
	EXPECT(m.address == addressOf(pinned ? 300 + MOVED : 300));
	EXPECT_SUCCESS(memoryDescribeLocal(&gpu, addressOf(300), SPAN - 300, &m));
	if (pinned)
		EXPECT_FAILS(memoryDescribeLocal(&gpu, addressOf(300), SPAN - 299, &m),
			     ginErrorInvalidArgument, "not pinned", "to its end",
			     "cudaHostRegister()");
	else if (!isWithoutRange() && row->type && !row->managed)
		EXPECT_FAILS(memoryDescribeLocal(&gpu, addressOf(300), SPAN - 299, &m),
			     ginErrorInvalidArgument, "more than the one allocation");
	else if (!row->type)
		EXPECT_FAILS(memoryDescribeLocal(&gpu, addressOf(300), SPAN - 299, &m),
			     ginErrorInvalidArgument, "are not mapped");
}

/*
 * A source may go on in the next piece of mapped memory, but not in the allocation next to another
 * cudaMalloc().
 */
static void asSourceOfTwo(void)
{
	struct memory m;

	if ((row->type != cuMemoryIsDevice && !row->onHost) || row->managed || isWithoutRange() ||
	    !row->local)
		return;
	beside = 1;
	if (row->vmm >= 0)
		EXPECT_SUCCESS(memoryDescribeLocal(&gpu, addressOf(300), SPAN - 299, &m));
	else
		EXPECT_FAILS(memoryDescribeLocal(&gpu, addressOf(300), SPAN - 299, &m),
			     ginErrorInvalidArgument, "more than the one allocation");
	beside = 0;
}

/* A window may lie in pieces of GPU memory and of a NUMA node, if peers can map all pieces. */
static void asWindowOfTwo(void)
{
	struct memory m;

	if (row->kind != memoryVmm || (row->onHost && row->ordinal != OURS))
		return;
	beside = besideOnHost = 1;
	EXPECT_SUCCESS(memoryDescribe(&gpu, addressOf(300), SPAN - 299, &m));
	EXPECT(m.kind == memoryVmm && m.onHost && !memoryIsGpus(&m));
	EXPECT(m.span == 2 * SPAN && m.run[0].count == 2);
	beside = besideOnHost = 0;
}

/* Empty memory has no kind, at any address. */
static void nothing(void)
{
	struct memory m;

	EXPECT_SUCCESS(memoryDescribe(&gpu, NULL, 0, &m));
	EXPECT_EQUAL(m.kind, memoryNone);
	EXPECT_SUCCESS(memoryDescribeLocal(&gpu, addressOf(SPAN + 5), 0, &m));
	EXPECT_EQUAL(m.kind, memoryNone);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	/* What the driver does not know is looked at. */
	EXPECT(mmap((void *)BASE, SPAN, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)BASE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row = &rows[i];
		asWindow();
		asSource();
		asSourceOfTwo();
		asWindowOfTwo();
		nothing();
		printf("ok: %s\n", row->name);
	}
	return 0;
}
