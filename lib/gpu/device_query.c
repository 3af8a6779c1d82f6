/* SPDX-License-Identifier: BSD-3-Clause */
/* device_query.c - the GPUs that this process sees, by the driver and without a context */
#include <ctype.h>
#include <stdio.h>

#include "device.h"
#include "lib/base/error.h"
#include "lib/base/info.h"

/* As nvidia-smi writes the UUID after "GPU-". */
static void writeUuid(const cuUuid *uuid, char *out, size_t bytes)
{
	size_t used = 0;

	for (int i = 0; i < 16 && used < bytes; i++)
		used += (size_t)snprintf(out + used, bytes - used, "%s%02x",
					 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					 (unsigned char)uuid->bytes[i]);
}

static int peersOneWay(const struct cuda *cuda, cuDevice from, cuDevice to)
{
	int access = 0, atomics = 0;

	cuda->deviceGetP2pAttribute(&access, cuP2pAccess, from, to);
	cuda->deviceGetP2pAttribute(&atomics, cuP2pNativeAtomics, from, to);
	return access && atomics;
}

/* A device's handle is its ordinal. */
static int domainOf(const struct cuda *cuda, int ordinal)
{
	for (int other = 0; other < ordinal; other++)
		if (peersOneWay(cuda, ordinal, other) && peersOneWay(cuda, other, ordinal))
			return other;
	return ordinal;
}

static int attribute(const struct cuda *cuda, int which, cuDevice id, int otherwise)
{
	int value = otherwise;

	return cuda->deviceGetAttribute(&value, which, id) ? otherwise : value;
}

static ginResult_t fillNames(const struct cuda *cuda, cuDevice id, ginDeviceInfo_t *info)
{
	cuUuid uuid = {{0}};
	cuResult error = cuda->deviceGetName(info->name, sizeof(info->name), id);

	if (!error)
		error = cuda->deviceGetUuid(&uuid, id);
	if (!error)
		error = cuda->deviceGetPciBusId(info->pciBusId, sizeof(info->pciBusId), id);
	if (error)
		return cudaFail(cuda, "cuDeviceGetName", error);
	writeUuid(&uuid, info->uuid, sizeof(info->uuid));
	for (char *at = info->pciBusId; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return ginSuccess;
}

static ginResult_t fillDevice(const struct cuda *cuda, int ordinal, ginDeviceInfo_t *info)
{
	cuDevice id;
	size_t memory = 0;
	cuResult error = cuda->deviceGet(&id, ordinal);

	if (!error)
		error = cuda->deviceTotalMem(&memory, id);
	if (error)
		return cudaFail(cuda, "cuDeviceTotalMem", error);
	const char *why = deviceUnusable(cuda, id);
	info->usable = !why;
	snprintf(info->why, sizeof(info->why), "%s", why ? why : "");
	info->memoryBytes = memory;
	info->computeMajor = attribute(cuda, cuComputeMajor, id, 0);
	info->computeMinor = attribute(cuda, cuComputeMinor, id, 0);
	info->numaNode = attribute(cuda, cuHostNuma, id, -1);
	info->domain = domainOf(cuda, ordinal);
	return fillNames(cuda, id, info);
}

static ginResult_t fillAny(int ordinal, ginDeviceInfo_t *info)
{
	const char *why;
	const struct cuda *cuda = cudaLoad(&why);

	if (!cuda) {
		snprintf(info->why, sizeof(info->why), "%s", why);
		return ginSuccess;
	}
	cuResult error = cuda->deviceGetCount(&info->count);
	if (!error)
		error = cuda->driverGetVersion(&info->driverVersion);
	if (error)
		return cudaFail(cuda, "cuDeviceGetCount", error);
	if (ordinal >= info->count)
		return fail(ginErrorInvalidArgument, "ordinal is %d: must be 0 to %d", ordinal,
			    info->count - 1);
	return fillDevice(cuda, ordinal, info);
}

ginResult_t ginDeviceQuery(int ordinal, ginDeviceInfo_t *info)
{
	ginDeviceInfo_t filled = GIN_DEVICE_INFO_INIT;

	errorScope("ginDeviceQuery", -1);
	if (ordinal < 0)
		return fail(ginErrorInvalidArgument, "ordinal is %d: must be 0 or more", ordinal);
	ginResult_t result = fillAny(ordinal, &filled);
	return result == ginSuccess
		       ? infoGive(&filled, sizeof(filled), "GIN_DEVICE_INFO_INIT", info)
		       : result;
}
