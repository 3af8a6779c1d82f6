/* SPDX-License-Identifier: BSD-3-Clause */
/* memory_kind.c - the kind of the memory at an address, and which windows may lie in it */
#include "lib/base/error.h"
#include "memory.h"

/* Without a GPU. */
static ginResult_t describeHost(struct memory *m, int isTarget)
{
	if (memoryFind(m))
		return ginSuccess;
	m->kind = memoryPrivate;
	m->what = "private memory of this process";
	return memoryCheck(m->address, m->bytes, isTarget);
}

static int attribute(const struct device *d, int which, const struct memory *m)
{
	int value = 0;

	if (d->cuda->pointerAttribute(&value, which, (cuPtr)(uintptr_t)m->address))
		return 0;
	return value;
}

/* An address unknown to the driver is host memory that was never registered with it. */
static int isGpuMemory(const struct device *d, const struct memory *m)
{
	return attribute(d, cuPointerMemoryType, m) == cuMemoryIsDevice;
}

static int isManaged(const struct device *d, const struct memory *m)
{
	uint64_t managed = 0; /* a bool of the driver, whose size is not known here */

	return !d->cuda->pointerAttribute(&managed, cuPointerIsManaged,
					  (cuPtr)(uintptr_t)m->address) &&
	       managed;
}

static int isOfPool(const struct device *d, const struct memory *m)
{
	void *pool = NULL;

	return !d->cuda->pointerAttribute(&pool, cuPointerPool, (cuPtr)(uintptr_t)m->address) &&
	       pool;
}

static ginResult_t checkOrdinal(const struct device *d, const struct memory *m)
{
	int ordinal = -1;

	d->cuda->pointerAttribute(&ordinal, cuPointerOrdinal, (cuPtr)(uintptr_t)m->address);
	if (ordinal == d->ordinal)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "ptr %p is memory of GPU %d, the communicator's is GPU %d: register it with a "
		    "communicator of GPU %d",
		    (void *)m->address, ordinal, d->ordinal, ordinal);
}

/*
 * The allocation that cuMemMap() has mapped there; 0: none. The mapping keeps it, and its number.
 */
static cuAllocation allocationAt(const struct device *d, cuPtr at)
{
	cuAllocation allocation = 0;

	if (d->cuda->allocationRetain(&allocation, (void *)(uintptr_t)at))
		return 0;
	d->cuda->allocationRelease(allocation);
	return allocation;
}

/* No mapping begins or ends elsewhere. */
#define MAPPING_STEP (64 << 10)

/* Where the mapping at `at` begins, and how long it is. Returns 0 if there is none. */
static int findMapping(const struct device *d, cuPtr at, cuPtr *base, size_t *span)
{
	cuPtr first = at / MAPPING_STEP * MAPPING_STEP, end = first + MAPPING_STEP;
	const cuAllocation own = allocationAt(d, at);

	while (own && first && allocationAt(d, first - MAPPING_STEP) == own)
		first -= MAPPING_STEP;
	while (own && allocationAt(d, end) == own)
		end += MAPPING_STEP;
	*base = first;
	*span = end - first;
	return own != 0;
}

/* For memory of a NUMA node, drivers may give no range, or a range other than the mapping. */
static int isMappingElsewhere(const struct device *d, cuPtr at, cuPtr base, size_t span)
{
	const cuAllocation own = allocationAt(d, at);

	return own && (at < base || at - base >= span || allocationAt(d, base) != own);
}

static cuResult findRange(const struct device *d, struct memory *m)
{
	cuPtr base = 0, at = (cuPtr)(uintptr_t)m->address;
	size_t span = 0;
	cuResult result = d->cuda->addressRange(&base, &span, at);

	if (isMappingElsewhere(d, at, result ? at + 1 : base, span) &&
	    findMapping(d, at, &base, &span))
		result = 0;
	if (result)
		return result;
	m->base = (char *)(uintptr_t)base;
	m->span = span;
	if (d->cuda->pointerAttribute(&m->id, cuPointerBufferId, at))
		m->id = 0;
	return 0;
}

/*
 * The driver's description of memory that cuMemMap() has mapped. An allocation of cudaMalloc() is
 * not such memory.
 */
struct mapping {
	int isMapped;
	int isExportable; /* by a file descriptor */
	int isOnHost;	  /* it is memory of a NUMA node of the host */
};

static struct mapping mappingAt(const struct device *d, void *ptr)
{
	cuAllocation allocation;
	cuAllocationProp prop = {0};

	if (d->cuda->allocationRetain(&allocation, ptr))
		return (struct mapping){0};
	int known = !d->cuda->allocationProp(&prop, allocation);
	d->cuda->allocationRelease(allocation);
	return (struct mapping){.isMapped = 1,
				.isExportable = known && (prop.handleTypes & cuPosixFd),
				.isOnHost = known && prop.location.type >= cuOnHost &&
					    prop.location.type <= cuOnHostNumaCurrent};
}

/* Memory of another GPU is refused. */
static ginResult_t checkMapping(const struct device *d, const struct memory *m,
				const struct mapping *mapping)
{
	return mapping->isOnHost ? ginSuccess : checkOrdinal(d, m);
}

static void findKind(const struct device *d, struct memory *m, const struct mapping *mapping)
{
	if (isOfPool(d, m)) {
		m->kind = memoryPrivate;
		m->what = "memory of a pool (cudaMallocAsync)";
		return;
	}
	m->kind = !mapping->isMapped	  ? memoryIpc
		  : mapping->isExportable ? memoryVmm
					  : memoryPrivate;
	m->onHost = mapping->isOnHost;
	m->what = mapping->isOnHost
			  ? "host memory that was made without a POSIX file descriptor handle"
			  : "GPU memory that was made without a POSIX file descriptor handle";
}

/* The address by which kernels use pinned memory, which may differ; NULL: it is not pinned. */
static char *pinnedAddress(const struct device *d, char *host)
{
	cuPtr at = 0;

	if (d->cuda->pointerAttribute(&at, cuPointerDevicePointer, (cuPtr)(uintptr_t)host))
		return NULL;
	return (char *)(uintptr_t)at;
}

/* Is it host memory that peers can map: from ginMemAllocHost(), or pinned by the user? */
static int findPinned(const struct device *d, struct memory *m)
{
	char *last = m->address + m->bytes - 1;

	return attribute(d, cuPointerMemoryType, m) == cuMemoryIsHost &&
	       pinnedAddress(d, m->address) == m->address && pinnedAddress(d, last) == last &&
	       memoryFind(m);
}

/* Consecutive equal pieces are one run. 0: there are too many runs. */
static int addToRuns(struct deviceRun *run, uint64_t bytes)
{
	int last = 0;

	while (last + 1 < DEVICE_RUNS && run[last + 1].count)
		last++;
	if (run[last].count && run[last].bytes != bytes)
		last++;
	if (last == DEVICE_RUNS)
		return 0;
	run[last].bytes = bytes;
	run[last].count++;
	return 1;
}

/* The piece that begins where the memory ends so far. 0: there is none. */
static int findNext(const struct device *d, const struct memory *m, struct memory *next)
{
	*next = (struct memory){.address = m->base + m->span};
	return !findRange(d, next) && next->base == next->address && next->span;
}

static ginResult_t checkPiece(const struct device *d, struct memory *m, const struct memory *next)
{
	const struct mapping mapping = mappingAt(d, next->address);
	ginResult_t result = checkMapping(d, next, &mapping);

	m->onHost |= mapping.isOnHost;
	if (result != ginSuccess || (mapping.isExportable && !isOfPool(d, next)))
		return result;
	return fail(ginErrorInvalidArgument,
		    "ptr %p lies in several pieces, and the piece at %p has no POSIX file "
		    "descriptor handle: create all pieces with "
		    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
		    (void *)m->address, (void *)next->address);
}

/* Memory mapped by cuMemMap() may continue in further pieces, up to the end of the window. */
static ginResult_t findPieces(const struct device *d, struct memory *m)
{
	struct memory next;
	int fits = addToRuns(m->run, m->span);

	while (fits && m->bytes > (size_t)(m->base + m->span - m->address) &&
	       findNext(d, m, &next)) {
		ginResult_t result = checkPiece(d, m, &next);
		if (result != ginSuccess)
			return result;
		fits = addToRuns(m->run, next.span);
		m->span += next.span;
		m->id = m->id * 31 + next.id;
	}
	if (fits)
		return ginSuccess;
	return fail(
		ginErrorInvalidArgument,
		"ptr %p lies in pieces whose size changes more than %d times: make all pieces of "
		"one size",
		(void *)m->address, DEVICE_RUNS - 1);
}

/* Managed memory moves between host and GPU: a peer has no address for it. */
static ginResult_t describeGpu(const struct device *d, struct memory *m)
{
	if (findPinned(d, m))
		return ginSuccess;
	const struct mapping mapping = mappingAt(d, m->address);
	int managed = isManaged(d, m);
	if (managed || !(isGpuMemory(d, m) || mapping.isOnHost))
		return fail(ginErrorInvalidArgument,
			    "ptr %p is %s memory, which peers' GPUs do not reach: use "
			    "ginMemAlloc(), ginMemAllocHost() or cudaMalloc(), or GIN_WINDOW_LOCAL "
			    "for a source",
			    (void *)m->address, managed ? "managed" : "host");
	ginResult_t result = checkMapping(d, m, &mapping);
	if (result != ginSuccess)
		return result;
	findKind(d, m, &mapping);
	cuResult range = findRange(d, m);
	if (range && m->kind != memoryPrivate) /* which no peer maps */
		return cudaFail(d->cuda, "cuMemGetAddressRange", range);
	return m->kind == memoryVmm ? findPieces(d, m) : ginSuccess;
}

static ginResult_t checkRange(const struct memory *m)
{
	if (m->bytes <= (size_t)(m->base + m->span - m->address))
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "ptr %p with %zu bytes is more than the one allocation of %zu bytes at %p",
		    (void *)m->address, m->bytes, m->span, (void *)m->base);
}

static struct memory memoryAt(void *ptr, size_t bytes)
{
	return (struct memory){.kind = memoryNone,
			       .address = ptr,
			       .bytes = bytes,
			       .base = ptr,
			       .span = bytes,
			       .fd = -1};
}

ginResult_t memoryDescribe(const struct device *d, void *ptr, size_t bytes, struct memory *out)
{
	ginResult_t result;

	*out = memoryAt(ptr, bytes);
	if (!bytes)
		return ginSuccess;
	result = d->cuda ? describeGpu(d, out) : describeHost(out, 1);
	return result == ginSuccess ? checkRange(out) : result;
}

static ginResult_t describePinned(const struct device *d, struct memory *m)
{
	char *first = pinnedAddress(d, m->address);
	char *last = pinnedAddress(d, m->address + m->bytes - 1);

	if (!first || last != first + m->bytes - 1)
		return fail(ginErrorInvalidArgument,
			    "ptr %p with %zu bytes is not pinned for GPU %d to its end: pin all of "
			    "it by one cudaHostRegister() or cudaHostAlloc()",
			    (void *)m->address, m->bytes, d->ordinal);
	m->address = m->base = first;
	return ginSuccess;
}

static ginResult_t describePlain(const struct device *d, const struct memory *m)
{
	int pageable = 0;

	d->cuda->deviceGetAttribute(&pageable, cuHasPageableAccess, d->id);
	if (pageable)
		return memoryCheck(m->address, m->bytes, 0);
	return fail(ginErrorInvalidArgument,
		    "ptr %p is host memory that GPU %d does not reach: pin it by "
		    "cudaHostRegister(), or use cudaHostAlloc()",
		    (void *)m->address, d->ordinal);
}

static ginResult_t describeLocalGpu(const struct device *d, struct memory *m)
{
	const struct mapping mapping = mappingAt(d, m->address);
	int type = attribute(d, cuPointerMemoryType, m);

	if (isManaged(d, m))
		return ginSuccess;
	if (type == cuMemoryIsHost && !mapping.isOnHost)
		return describePinned(d, m);
	if (type != cuMemoryIsDevice && !mapping.isOnHost)
		return describePlain(d, m);
	ginResult_t result = checkMapping(d, m, &mapping);
	struct memory next;
	if (result != ginSuccess || findRange(d, m))
		return result; /* without a range the caller's size is trusted */
	while (m->bytes > (size_t)(m->base + m->span - m->address) && mapping.isMapped &&
	       findNext(d, m, &next) && mappingAt(d, next.address).isMapped)
		m->span += next.span;
	return ginSuccess;
}

ginResult_t memoryDescribeLocal(const struct device *d, void *ptr, size_t bytes, struct memory *out)
{
	ginResult_t result;

	*out = memoryAt(ptr, bytes);
	if (!bytes)
		return ginSuccess;
	result = d->cuda ? describeLocalGpu(d, out) : describeHost(out, 0);
	return result == ginSuccess ? checkRange(out) : result;
}
