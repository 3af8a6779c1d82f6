/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_device_query.c - ginDeviceQuery() with a driver whose answers are known, and without a
 * driver
 *
 * The driver is test/fake/libcuda.so.1. It is loaded first, so that libgin finds it by its name.
 */
/* NEEDS: test/fake/libcuda.so.1 */
#include "expect.h"

#include <dlfcn.h>
#include <limits.h>

static char fake[4096];

static ginDeviceInfo_t ask(int ordinal)
{
	ginDeviceInfo_t info = GIN_DEVICE_INFO_INIT;

	EXPECT_SUCCESS(ginDeviceQuery(ordinal, &info));
	EXPECT_EQUAL(info.size, sizeof(info));
	return info;
}

static void loadFake(void)
{
	expectThat(dlopen(fake, RTLD_NOW) != NULL, __FILE__, __LINE__, "%s", dlerror());
}

static void facts(void)
{
	loadFake();
	ginDeviceInfo_t info = ask(1);
	EXPECT_EQUAL(info.count, 5);
	EXPECT_EQUAL(info.usable, 1);
	EXPECT_EQUAL(info.numaNode, 0);
	EXPECT_EQUAL(info.computeMajor, 9);
	EXPECT_EQUAL(info.computeMinor, 1);
	EXPECT_EQUAL(info.driverVersion, 13000);
	EXPECT_EQUAL(info.memoryBytes, 2ull << 30);
	EXPECT_TEXT(info.name, "Test GPU B");
	EXPECT_TEXT(info.uuid, "00112233-4455-6677-8899-aabbccddee01");
	EXPECT_TEXT(info.pciBusId, "0000:1c:00.0");
	EXPECT_TEXT(info.why, "");
}

/* Native atomics, both ways; anything less does not count. */
static void domains(void)
{
	static const int due[] = {0, 0, 2, 3, 4};

	loadFake();
	for (int i = 0; i < 5; i++)
		EXPECT_EQUAL(ask(i).domain, due[i]);
}

static void unusable(void)
{
	loadFake();
	EXPECT_EQUAL(ask(2).usable, 1);
	EXPECT_EQUAL(ask(2).numaNode, -1);
	EXPECT_EQUAL(ask(3).usable, 0);
	EXPECT_HAS(ask(3).why, "file descriptors");
	EXPECT_EQUAL(ask(4).usable, 0);
	EXPECT_HAS(ask(4).why, "nvidia-smi --compute-mode");
}

static void badArguments(void)
{
	static const int ordinals[] = {5, INT_MAX};
	ginDeviceInfo_t info, poison;

	loadFake();
	memset(&info, 0x5a, sizeof(info));
	info.size = sizeof(info);
	poison = info;
	for (int i = 0; i < 2; i++)
		EXPECT_FAILS(ginDeviceQuery(ordinals[i], &info), ginErrorInvalidArgument,
			     "ginDeviceQuery: ordinal is ", "must be 0 to 4");
	EXPECT_FAILS(ginDeviceQuery(-1, &info), ginErrorInvalidArgument, "ordinal is -1");
	EXPECT(!memcmp(&info, &poison, sizeof(info)));
	EXPECT_FAILS(ginDeviceQuery(0, NULL), ginErrorInvalidArgument, "GIN_DEVICE_INFO_INIT");
}

/* A communicator learns the same reason, by the call that it makes. */
static void communicatorSaysSo(void)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	ginComm_t comm;

	loadFake();
	config.device = 3;
	EXPECT_FAILS(ginCommInit(&config, &comm), ginErrorUnsupported, "GPU 3 (Test GPU D)",
		     "file descriptors");
	config.device = 4;
	EXPECT_FAILS(ginCommInit(&config, &comm), ginErrorUnsupported, "GPU 4", "compute mode");
	config.device = 0; /* usable, but this driver makes no context */
	EXPECT_FAILS(ginCommInit(&config, &comm), ginErrorCuda, "cuDevicePrimaryCtxRetain");
}

/* This machine, with or without a driver. */
static void thisMachine(void)
{
	ginDeviceInfo_t info = ask(0);

	if (info.count) {
		EXPECT(*info.name && strlen(info.uuid) == 36 && *info.pciBusId);
		EXPECT(info.driverVersion >= 12020 && info.memoryBytes && info.computeMajor);
		EXPECT_EQUAL(info.usable, !*info.why);
		return;
	}
	EXPECT_EQUAL(info.usable, 0);
	EXPECT(*info.why != '\0');
	EXPECT_TEXT(info.name, "");
	EXPECT_TEXT(ask(INT_MAX).why, info.why);
	EXPECT_FAILS(ginDeviceQuery(-1, &info), ginErrorInvalidArgument, "ordinal is -1");
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0);
	const char *slash = strrchr(argv[0], '/');
	snprintf(fake, sizeof(fake), "%.*sfake/libcuda.so.1",
		 argc && slash ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
	expectChild("facts of a GPU", facts);
	expectChild("NVLink domains", domains);
	expectChild("GPUs that cannot be used", unusable);
	expectChild("bad arguments", badArguments);
	expectChild("GPUs that a communicator cannot use", communicatorSaysSo);
	expectChild("the GPUs of this machine, or none", thisMachine);
	return expectFailures != 0;
}
