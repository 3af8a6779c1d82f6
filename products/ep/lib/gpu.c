/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.c - the kernels of a GPU, by the driver's library calls */
#include "driver.h"
#include "ep.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * kernels.S: the fatbins of the kernels, and of those that write records for GIN_TRACE; empty in a
 * build without nvcc, or without EP_TRACE=1.
 */
extern const char epFatbin[], epFatbinEnd[], epTraced[], epTracedEnd[];

struct epGpu {
	const struct epDriver *driver;
	epContext context; /* the device's primary context */
	int device;
	epLibrary library;
	epFunction kernel[EP_VARIANT_COUNT];
	uint32_t sms, shared;
	uint64_t users; /* eps */
	char name[32];
	int isTraced; /* the kernels write records for GIN_TRACE */
};

/* By ordinal: the kernels that are loaded. */
static struct epGpu *loaded[64];
static pthread_mutex_t loadedLock = PTHREAD_MUTEX_INITIALIZER;

static ginResult_t failed(const struct epGpu *gpu, const char *what, int result)
{
	const char *words = NULL;

	if (gpu->driver->getErrorString(result, &words) || !words)
		words = "unknown error";
	return epFail(ginErrorCuda, "%s: %s", what, words);
}

#define DRIVER(gpu, call, ...)                                                                     \
	do {                                                                                       \
		int driverResult = (gpu)->driver->call(__VA_ARGS__);                               \
		if (driverResult)                                                                  \
			return failed(gpu, #call, driverResult);                                   \
	} while (0)

static const struct {
	const char *name, *function;
} variants[] = {
#define EP_NAME(name, function, ...) {#name, #function},
	EP_VARIANTS(EP_NAME)
#undef EP_NAME
};

#define EP_STRING(x) #x
#define EP_ABI_NAME(abi) "gin_ep_abi_" EP_STRING(abi)

/* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
enum { DYNAMIC_SHARED = 8 };

/* The kernels and libgin agree on the layout of ginDevComm: kernels.cu has the number in a name. */
static ginResult_t checkAbi(struct epGpu *gpu)
{
	epFunction abi;

	if (!gpu->driver->libraryGetKernel(&abi, gpu->library, EP_ABI_NAME(GIN_DEVICE_ABI)))
		return ginSuccess;
	return epFail(ginErrorAbi,
		      "the kernels of libgin-ep were built for a device layout other "
		      "than libgin's, %u",
		      GIN_DEVICE_ABI);
}

/*
 * Loads a kernel. CUDA would load it at its first launch, and wait for running kernels: if those
 * kernels wait for copies of the proxy, which CUDA delays meanwhile, both wait forever.
 */
static ginResult_t loadKernel(struct epGpu *gpu, int variant)
{
	const char *name = variants[variant].name, *of = variants[variant].function;
	epFunction function;
	char mangled[96]; /* gin_ep::NAME::FUNCTION(epArgs) */

	snprintf(mangled, sizeof(mangled), "_ZN6gin_ep%zu%s%zu%sE6epArgs", strlen(name), name,
		 strlen(of), of);
	DRIVER(gpu, libraryGetKernel, &gpu->kernel[variant], gpu->library, mangled);
	DRIVER(gpu, kernelGetFunction, &function, gpu->kernel[variant]);
	if (variant == epVariantHtDispatch || variant == epVariantHtCombine ||
	    variant == epVariantHtRailDispatch || variant == epVariantHtRailCombine)
		DRIVER(gpu, kernelSetAttribute, DYNAMIC_SHARED, (int)gpu->shared,
		       gpu->kernel[variant], gpu->device);
	if (gpu->driver->funcLoad)
		DRIVER(gpu, funcLoad, function);
	return ginSuccess;
}

/* The kernels that write records, if the process has a trace and the build has them. */
static const char *chooseKernels(struct epGpu *gpu)
{
	const char *file = getenv("GIN_TRACE");

	gpu->isTraced = file && *file && &epTracedEnd[0] != &epTraced[0];
	return gpu->isTraced ? epTraced : epFatbin;
}

static ginResult_t loadKernels(struct epGpu *gpu)
{
	int major = 0, minor = 0, sms = 0, shared = 0;

	DRIVER(gpu, deviceGetAttribute, &major, 75, gpu->device);
	DRIVER(gpu, deviceGetAttribute, &minor, 76, gpu->device);
	DRIVER(gpu, deviceGetAttribute, &sms, 16, gpu->device);
	DRIVER(gpu, deviceGetAttribute, &shared, 97, gpu->device);
	gpu->sms = (uint32_t)sms;
	gpu->shared = major < 9 ? EP_SCRATCH : (uint32_t)shared; /* bulk copies need stages */
	const char *kernels = chooseKernels(gpu);
	snprintf(gpu->name, sizeof(gpu->name), "sm_%d%d%s", major, minor,
		 gpu->isTraced ? " traced" : "");
	if (&epFatbinEnd[0] == &epFatbin[0])
		return epFail(ginErrorUnsupported, "this libgin-ep was built without nvcc and has "
						   "kernels for host threads only");
	int result =
		gpu->driver->libraryLoadData(&gpu->library, kernels, NULL, NULL, 0, NULL, NULL, 0);
	if (result) {
		failed(gpu, "cuLibraryLoadData", result);
		return epFail(ginErrorUnsupported, "no kernels for %s: %s", gpu->name,
			      ginEpGetLastError());
	}
	ginResult_t fits = checkAbi(gpu);
	for (int v = 0; !fits && v < EP_VARIANT_COUNT; v++)
		fits = loadKernel(gpu, v);
	return fits;
}

static ginResult_t enter(const struct epGpu *gpu)
{
	DRIVER(gpu, ctxPush, gpu->context);
	return ginSuccess;
}

static void leave(const struct epGpu *gpu)
{
	epContext own;

	gpu->driver->ctxPop(&own);
}

static ginResult_t openContext(struct epGpu *gpu, int ordinal)
{
	DRIVER(gpu, deviceGet, &gpu->device, ordinal);
	DRIVER(gpu, primaryRetain, &gpu->context, gpu->device);
	return ginSuccess;
}

static void unload(struct epGpu *gpu)
{
	if (gpu->library && !enter(gpu)) {
		gpu->driver->libraryUnload(gpu->library);
		leave(gpu);
	}
	if (gpu->context)
		gpu->driver->primaryRelease(gpu->device);
	free(gpu);
}

static ginResult_t load(int ordinal, struct epGpu **out)
{
	struct epGpu *gpu = calloc(1, sizeof(*gpu));
	const char *why = NULL;
	ginResult_t result;

	if (!gpu)
		return epFail(ginErrorSystem, "no memory for the kernels of a GPU");
	if (!(gpu->driver = epDriverLoad(&why))) {
		free(gpu);
		return epFail(ginErrorUnsupported, "%s", why);
	}
	if (!(result = openContext(gpu, ordinal)) && !(result = enter(gpu))) {
		result = loadKernels(gpu);
		leave(gpu);
	}
	if (result)
		unload(gpu);
	else
		*out = gpu;
	return result;
}

ginResult_t epGpuOpen(int ordinal, struct epGpu **out)
{
	ginResult_t result = ginSuccess;

	if (ordinal < 0 || ordinal >= (int)(sizeof(loaded) / sizeof(*loaded)))
		return epFail(ginErrorUnsupported, "GPU %d: the ordinal is too large", ordinal);
	pthread_mutex_lock(&loadedLock);
	if (!loaded[ordinal])
		result = load(ordinal, &loaded[ordinal]);
	if (!result) {
		*out = loaded[ordinal];
		loaded[ordinal]->users++;
	}
	pthread_mutex_unlock(&loadedLock);
	return result;
}

void epGpuClose(struct epGpu *gpu)
{
	if (!gpu)
		return;
	pthread_mutex_lock(&loadedLock);
	if (!--gpu->users) {
		for (size_t i = 0; i < sizeof(loaded) / sizeof(*loaded); i++)
			loaded[i] = loaded[i] == gpu ? NULL : loaded[i];
		unload(gpu);
	}
	pthread_mutex_unlock(&loadedLock);
}

const char *epGpuKernels(const struct epGpu *gpu)
{
	return gpu->name;
}

uint32_t epGpuBlocks(const struct epGpu *gpu)
{
	return gpu->sms * 2;
}

uint32_t epGpuShared(const struct epGpu *gpu)
{
	return gpu->shared;
}

ginResult_t epGpuWrite(struct epGpu *gpu, void *dst, const void *src, size_t bytes)
{
	ginResult_t result = enter(gpu);

	if (result)
		return result;
	int copied = gpu->driver->copyToDevice((uintptr_t)dst, src, bytes);
	leave(gpu);
	return copied ? failed(gpu, "cuMemcpyHtoD", copied) : ginSuccess;
}

ginResult_t epGpuClear(struct epGpu *gpu, void *dst, size_t bytes)
{
	ginResult_t result = enter(gpu);

	if (result)
		return result;
	int set = gpu->driver->memset8((uintptr_t)dst, 0, bytes);
	leave(gpu);
	return set ? failed(gpu, "cuMemsetD8", set) : ginSuccess;
}

ginResult_t epGpuSync(struct epGpu *gpu)
{
	ginResult_t result = enter(gpu);

	if (result)
		return result;
	int synced = gpu->driver->streamSynchronize(NULL);
	leave(gpu);
	return synced ? failed(gpu, "cuStreamSynchronize", synced) : ginSuccess;
}

ginResult_t epGpuLaunch(struct epGpu *gpu, uint32_t variant, uint32_t grid, uint32_t block,
			size_t shared, const struct epArgs *args, void *stream)
{
	void *parameters[] = {(void *)(uintptr_t)args};
	struct epLaunchConfig config = {
		.grid = {grid, 1, 1},
		.block = {block, 1, 1},
		.sharedBytes = (unsigned)shared,
		.stream = stream,
	};
	ginResult_t result = enter(gpu);

	if (result)
		return result;
	int launched = gpu->driver->launchKernelEx(&config, gpu->kernel[variant], parameters, NULL);
	leave(gpu);
	return launched ? failed(gpu, variants[variant].name, launched) : ginSuccess;
}
