/* SPDX-License-Identifier: BSD-3-Clause */
#include "trap.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#include "mlx5/dev/device/device.h"
#include "mlx5/dev/engine/doorbell.h"
#include "mlx5/dev/engine/engine.h"
#include "store.h"
#include "violation.h"

enum { MAPS = DOORBELL_PAGES };

static struct map {
	uint8_t *address;
	size_t bytes;
	uint32_t first;
} maps[MAPS];
static int mapCount;

/*
 * The library linked in has libc's; in front of a program it is what the preload takes the place
 * of.
 */
int (*trapSigaction)(int, const struct sigaction *, struct sigaction *) = sigaction;

static struct sigaction others;
static bool isOpen;

/* The device learns nothing of unmapped places: a new place replaces old ones that it covers. */
static int placeFor(const uint8_t *address, size_t bytes)
{
	for (int i = 0; i < mapCount; i++)
		if (address < maps[i].address + maps[i].bytes && maps[i].address < address + bytes)
			return i;
	return mapCount < MAPS ? mapCount++ : -1;
}

void trapAdd(void *address, size_t bytes, uint32_t first)
{
	int at = placeFor(address, bytes);

	if (at < 0)
		violationAlone("more than %d doorbell pages are mapped", MAPS);
	maps[at] = (struct map){address, bytes, first};
}

static const struct map *find(const uint8_t *address)
{
	for (int i = 0; i < mapCount; i++)
		if (address >= maps[i].address && address < maps[i].address + maps[i].bytes)
			return &maps[i];
	return NULL;
}

static void passOn(int number, siginfo_t *info, void *context)
{
	if (others.sa_flags & SA_SIGINFO && others.sa_sigaction) {
		others.sa_sigaction(number, info, context);
	} else if (others.sa_handler != SIG_DFL && others.sa_handler != SIG_IGN) {
		others.sa_handler(number);
	} else {
		/* The access faults again, and then ends the process. */
		struct sigaction fatal = {.sa_handler = SIG_DFL};

		trapSigaction(number, &fatal, NULL);
	}
}

static void emulate(const struct map *map, const uint8_t *address, ucontext_t *context)
{
	size_t within = (size_t)(address - map->address);
	uint32_t page = map->first + (uint32_t)(within / DOORBELL_PAGE_BYTES);
	uint32_t offset = (uint32_t)(within % DOORBELL_PAGE_BYTES);
	uint8_t *at = doorbellMemory() + (size_t)page * DOORBELL_PAGE_BYTES + offset;

	deviceLock();
	size_t bytes = storeEmulate(context, at);
	if (!bytes)
		violationAlone("the instruction that stored to a doorbell page is not known: see "
			       "store.c, or let the device poll");
	doorbellStored(page, offset, bytes);
	engineRunHere();
	deviceUnlock();
}

static void onFault(int number, siginfo_t *info, void *context)
{
	int before = errno;
	const struct map *map = find(info->si_addr);

	if (map)
		emulate(map, info->si_addr, context);
	else
		passOn(number, info, context);
	errno = before;
}

void trapOpen(void)
{
	struct sigaction action = {.sa_sigaction = onFault, .sa_flags = SA_SIGINFO | SA_NODEFER};

	trapSigaction(SIGSEGV, &action, &others);
	isOpen = true;
}

int trapOthers(const struct sigaction *action, struct sigaction *before)
{
	if (!isOpen)
		return 0;
	if (before)
		*before = others;
	if (action)
		others = *action;
	return 1;
}
