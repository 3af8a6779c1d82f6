/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mlx5/dev/host/options.h"

enum { QPNS = 65536, QPN_HIGH = 0x0a0000, GIDS_ROCE = 4 };

struct shared {
	uint32_t ids[DEVICES_MAX][KINDS];
	int32_t owners[DEVICES_MAX][QPNS];
};

static struct shared *shared;

void fabricOpen(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/fabric", options.directory);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && !ftruncate(fd, sizeof(*shared)))
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!shared || shared == MAP_FAILED) {
		fprintf(stderr, "mlx5dev: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	close(fd);
}

uint32_t fabricNewId(int device, enum kind kind)
{
	return 1 + __atomic_fetch_add(&shared->ids[device][kind], 1, __ATOMIC_RELAXED);
}

/* The number has bits above the lower 16: code that truncates it to 16 bits finds no queue pair. */
uint32_t fabricNewQpn(int device)
{
	uint32_t low = (0x100 + fabricNewId(device, KIND_QP)) % QPNS;

	__atomic_store_n(&shared->owners[device][low], getpid(), __ATOMIC_RELEASE);
	return QPN_HIGH | low;
}

void fabricForgetQpn(int device, uint32_t qpn)
{
	__atomic_store_n(&shared->owners[device][qpn % QPNS], 0, __ATOMIC_RELEASE);
}

void fabricForget(void)
{
	for (int device = 0; shared && device < options.devices; device++)
		for (uint32_t low = 0; low < QPNS; low++)
			if (shared->owners[device][low] == getpid())
				fabricForgetQpn(device, low);
}

int fabricOwner(int device, uint32_t qpn)
{
	if (device < 0 || (qpn & ~(QPNS - 1u)) != QPN_HIGH)
		return 0;
	return __atomic_load_n(&shared->owners[device][qpn % QPNS], __ATOMIC_ACQUIRE);
}

uint16_t fabricLid(int device)
{
	return (uint16_t)(7 + device);
}

uint64_t fabricGuid(int device)
{
	return 0x5153600300aabb00ull + (uint64_t)device;
}

void fabricMac(int device, uint8_t mac[6])
{
	const uint8_t address[6] = {0x02, 0x15, 0xb3, 0, 0, (uint8_t)(1 + device)};

	memcpy(mac, address, 6);
}

static void gidOfGuid(int device, uint8_t gid[16])
{
	uint64_t words[2] = {htobe64(0xfe80ull << 48), htobe64(fabricGuid(device))};

	memcpy(gid, words, 16);
}

static void gidOfAddress(int device, uint8_t gid[16])
{
	const uint8_t mapped[16] = {[10] = 0xff, 0xff, 10, 9, (uint8_t)device, 1};

	memcpy(gid, mapped, 16);
}

bool fabricGid(int device, uint32_t index, uint8_t gid[16])
{
	const struct optionGid *other = index < GIDS ? &options.gids[device][index] : NULL;

	memset(gid, 0, 16);
	if (other && other->isSet) {
		memcpy(gid, other->bytes, 16);
		return !other->isEmpty;
	}
	if (index >= (options.roce ? GIDS_ROCE : 1))
		return false;
	if (index < 2)
		gidOfGuid(device, gid);
	else
		gidOfAddress(device, gid);
	return true;
}

int fabricByLid(uint16_t lid)
{
	int device = lid - fabricLid(0);

	return device >= 0 && device < options.devices ? device : -1;
}

int fabricByGid(const uint8_t gid[16])
{
	uint8_t own[16];

	for (int device = 0; device < options.devices; device++)
		for (uint32_t index = 0; index < GIDS; index++)
			if (fabricGid(device, index, own) && !memcmp(own, gid, 16))
				return device;
	return -1;
}
