/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include "mlx5/dev/command/command.h"
#include "mlx5/dev/engine/doorbell.h"
#include "mlx5/dev/engine/engine.h"
#include "mlx5/dev/device/resources.h"
#include "expect.h"

static struct device *device;
static struct pd *pd;
static char directory[64];

static void removeDirectory(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (system(command))
		fprintf(stderr, "%s is left\n", directory);
}

static void makeDirectory(void)
{
	snprintf(directory, sizeof(directory), "/tmp/mlx5dev.XXXXXX");
	EXPECT(mkdtemp(directory) && !setenv("MLX5DEV_DIR", directory, 1));
	atexit(removeDirectory);
}

void hostOpen(void)
{
	if (!getenv("MLX5DEV_DIR"))
		makeDirectory();
	setenv("MLX5DEV_DOORBELL", "poll", 0);
	deviceStart();
	deviceLock();
	device = &devices[0];
	pd = pdCreate(device, CONTEXT_NONE);
	deviceUnlock();
	EXPECT(pd);
}

uint32_t hostPdn(void)
{
	return pd->object.id;
}

static uint32_t registerIn(struct pd *domain, void *address, size_t bytes, uint64_t iova,
			   unsigned int access)
{
	deviceLock();
	struct mr *mr = mrCreate(domain, CONTEXT_NONE, (uintptr_t)address, iova, bytes, access, -1);
	deviceUnlock();
	return mr ? mr->key : 0;
}

uint32_t hostRegister(void *address, size_t bytes, uint64_t iova, unsigned int access)
{
	return registerIn(pd, address, bytes, iova, access);
}

uint32_t hostRegisterElsewhere(void *address, size_t bytes, uint64_t iova, unsigned int access)
{
	deviceLock();
	struct pd *other = pdCreate(device, CONTEXT_NONE);
	deviceUnlock();
	return registerIn(other, address, bytes, iova, access);
}

uint32_t hostUmem(void *address, size_t bytes)
{
	deviceLock();
	struct umem *umem = umemCreate(device, CONTEXT_NONE, (uintptr_t)address, bytes, -1);
	deviceUnlock();
	return umem ? umem->object.id : 0;
}

bool hostUar(struct host_uar *uar)
{
	deviceLock();
	struct uar *made = uarCreate(device, CONTEXT_NONE);
	deviceUnlock();
	if (!made)
		return false;
	uint8_t *page = doorbellMemory() + (size_t)made->index * DOORBELL_PAGE_BYTES;
	uar->page = made->object.id;
	uar->doorbell = (uint64_t *)(void *)(page + DOORBELL_REGISTER);
	uar->object = (struct host_object *)made;
	return true;
}

static bool run(const void *in, size_t inBytes, void *out, size_t outBytes, struct object **made)
{
	struct command command = {device, CONTEXT_NONE, in, inBytes, out, outBytes, NULL};

	deviceLock();
	bool taken = commandRun(&command);
	deviceUnlock();
	if (made)
		*made = command.made;
	return taken;
}

struct host_object *hostCreate(const void *in, size_t inBytes, void *out, size_t outBytes)
{
	struct object *made = NULL;

	run(in, inBytes, out, outBytes, &made);
	return (struct host_object *)made;
}

bool hostModify(struct host_object *object, const void *in, size_t inBytes, void *out,
		size_t outBytes)
{
	(void)object;
	return run(in, inBytes, out, outBytes, NULL);
}

bool hostQuery(struct host_object *object, const void *in, size_t inBytes, void *out,
	       size_t outBytes)
{
	(void)object;
	return run(in, inBytes, out, outBytes, NULL);
}

bool hostGeneral(const void *in, size_t inBytes, void *out, size_t outBytes)
{
	return run(in, inBytes, out, outBytes, NULL);
}

void hostDestroy(struct host_object *object)
{
	deviceLock();
	EXPECT(resourceDestroy((struct object *)object));
	deviceUnlock();
}

void hostHold(void)
{
	engineHold();
}

void hostStep(void)
{
	engineStep();
}

void hostRelease(void)
{
	engineRelease();
}
